// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/verbs/tests/verbs_test.h"

namespace vrdma::verbs {
namespace {

class CqTest : public VerbsTest {
  protected:
    EqId eq = make_eq();
};

TEST_F(CqTest, TheSliceGetsWhatTheGuestAskedFor) {
    const Cqn cq = objects.cqs.create(cq_command(eq, kernel, 128)).value();
    const hca::CqSpec& spec = side->slice.cqs.at(cq);
    EXPECT_EQ(spec.depth, 128u);
    EXPECT_EQ(spec.eq, eq);
    EXPECT_EQ(spec.pages.length, VRDMA_QUEUE_CONTROL_SIZE + 128 * sizeof(vrdma_cqe));
}

TEST_F(CqTest, DepthIsAPowerOfTwoInRange) {
    for (const std::uint32_t depth : {0u, 3u, VRDMA_MAX_CQ_DEPTH * 2, 0x80000000u}) {
        auto cmd = cq_command(eq);
        cmd.depth = depth;
        EXPECT_EQ(error_of(objects.cqs.create(cmd)), std::errc::invalid_argument) << depth;
    }
}

TEST_F(CqTest, EqAndUserContextExist) {
    auto cmd = cq_command(EqId{9});
    EXPECT_EQ(error_of(objects.cqs.create(cmd)), std::errc::invalid_argument);
    cmd = cq_command(eq, UcontextId{9});
    EXPECT_EQ(error_of(objects.cqs.create(cmd)), std::errc::invalid_argument);
}

TEST_F(CqTest, NoCqeCrossesAPage) {
    auto cmd = cq_command(eq);
    cmd.first_offset = 32;
    EXPECT_EQ(error_of(objects.cqs.create(cmd)), std::errc::invalid_argument);
    cmd = cq_command(eq, kernel, 1);
    cmd.first_offset = 64; // 64 + 128 + 64 bytes: still one page
    EXPECT_TRUE(objects.cqs.create(cmd));
}

TEST_F(CqTest, BusyWhileAQpUsesIt) {
    const Cqn cq = make_cq(eq);
    const auto qp = objects.qps.create(qp_command(make_pd(), cq)).value();
    EXPECT_EQ(error_of(objects.cqs.destroy(cq)), std::errc::device_or_resource_busy);
    ASSERT_TRUE(objects.qps.destroy(qp.qpn));
    EXPECT_TRUE(objects.cqs.destroy(cq));
    EXPECT_EQ(error_of(objects.cqs.destroy(cq)), std::errc::invalid_argument);
}

TEST_F(CqTest, TheTypeLimitsTheirNumber) {
    for (std::uint32_t i = 0; i < limits.max_cq; ++i) {
        make_cq(eq);
    }
    EXPECT_EQ(error_of(objects.cqs.create(cq_command(eq))), std::errc::not_enough_memory);
}

TEST_F(CqTest, AFailureOfTheSliceLeavesNothingBehind) {
    side->slice.next_error = std::errc::not_enough_memory;
    EXPECT_EQ(error_of(objects.cqs.create(cq_command(eq))), std::errc::not_enough_memory);
    EXPECT_TRUE(objects.eqs.destroy(eq));
}

TEST_F(CqTest, FlagsAreThoseThatThereAre) {
    auto cmd = cq_command(eq);
    cmd.flags = VRDMA_CQ_TIMESTAMP | VRDMA_CQ_IGNORE_OVERRUN;
    const Cqn cq = objects.cqs.create(cmd).value();
    EXPECT_TRUE(side->slice.cqs.at(cq).timestamped);
    EXPECT_TRUE(side->slice.cqs.at(cq).ignore_overrun);
    cmd.flags = 4;
    EXPECT_EQ(error_of(objects.cqs.create(cmd)), std::errc::invalid_argument);
    cmd.flags = 0;
    cmd.reserved = 1;
    EXPECT_EQ(error_of(objects.cqs.create(cmd)), std::errc::invalid_argument);
}

// Resizes a CQ: expects the slice to get the new ring, and the old one's share of the budget back.
TEST_F(CqTest, Resize) {
    const Cqn cq = make_cq(eq);
    for (int again = 0; again < 1000; ++again) {
        ASSERT_TRUE(objects.cqs.resize(resize_command(cq, again % 2 == 0 ? 256 : 64)));
    }
    ASSERT_TRUE(objects.cqs.resize(resize_command(cq, 128)));
    EXPECT_EQ(side->slice.cqs.at(cq).depth, 128u);
    EXPECT_EQ(side->slice.cqs.at(cq).pages.length,
              VRDMA_QUEUE_CONTROL_SIZE + 128 * sizeof(vrdma_cqe));
}

TEST_F(CqTest, ResizeValidates) {
    const Cqn cq = make_cq(eq);
    const auto error = [&](auto spoil) {
        auto cmd = resize_command(cq, 128);
        spoil(cmd);
        return error_of(objects.cqs.resize(cmd));
    };
    EXPECT_EQ(error([](auto& cmd) { cmd.cqn = 99; }), std::errc::invalid_argument);
    EXPECT_EQ(error([](auto& cmd) { cmd.depth = 0; }), std::errc::invalid_argument);
    EXPECT_EQ(error([](auto& cmd) { cmd.depth = 100; }), std::errc::invalid_argument);
    EXPECT_EQ(error([](auto& cmd) { cmd.depth = VRDMA_MAX_CQ_DEPTH * 2; }),
              std::errc::invalid_argument);
    EXPECT_EQ(error([](auto& cmd) { cmd.depth = 1024; }),
              std::errc::invalid_argument); // too few pages
    EXPECT_EQ(error([](auto& cmd) { cmd.first_offset = 32; }), std::errc::invalid_argument);
    EXPECT_EQ(error([](auto& cmd) { cmd.reserved = 1; }), std::errc::invalid_argument);
    side->slice.next_error = std::errc::invalid_argument; // more is outstanding
    EXPECT_EQ(error([](auto&) {}), std::errc::invalid_argument);
    EXPECT_EQ(side->slice.cqs.at(cq).depth, 64u);
    EXPECT_EQ(error([](auto&) {}), std::errc{});
}

TEST_F(CqTest, Moderation) {
    const Cqn cq = make_cq(eq);
    ASSERT_TRUE(objects.cqs.modify({cq.value, 8, 100}));
    EXPECT_EQ(side->slice.cqs.at(cq).moderation.count, 8);
    EXPECT_EQ(side->slice.cqs.at(cq).moderation.period_us, 100);
    EXPECT_EQ(error_of(objects.cqs.modify({99, 8, 100})), std::errc::invalid_argument);
}

TEST_F(CqTest, RoundTrip) {
    const UcontextId owner = objects.ucontexts.alloc().value();
    auto cmd = cq_command(eq, owner);
    cmd.flags = VRDMA_CQ_TIMESTAMP;
    const Cqn cq = objects.cqs.create(cmd).value();
    ASSERT_TRUE(objects.cqs.resize(resize_command(cq, 128)));
    ASSERT_TRUE(objects.cqs.modify({cq.value, 8, 100}));
    side->slice.cq_states[cq] = {.producer = 5, .fired = 4, .error = 0, .events = 0};
    expect_round_trip();
    EXPECT_EQ(moved->slice.cq_states.at(cq).producer, 5u);
    EXPECT_EQ(moved->slice.cqs.at(cq).pages.blocks, side->slice.cqs.at(cq).pages.blocks);
    EXPECT_EQ(moved->slice.cqs.at(cq).depth, 128u);
    EXPECT_TRUE(moved->slice.cqs.at(cq).timestamped);
    EXPECT_FALSE(moved->slice.cqs.at(cq).ignore_overrun);
    EXPECT_EQ(moved->slice.cqs.at(cq).moderation.count, 8);
    EXPECT_EQ(moved->slice.cqs.at(cq).moderation.period_us, 100);
    EXPECT_EQ(error_of(moved->objects.eqs.destroy(eq)), std::errc::device_or_resource_busy);
    EXPECT_EQ(error_of(moved->objects.ucontexts.dealloc(owner)),
              std::errc::device_or_resource_busy);
}

TEST_F(CqTest, RestoreValidates) {
    const auto restore_error = [&](const CqState& state) {
        StateWriter writer;
        writer.begin(Section::cqs, CqState::version, 1);
        writer.put(state);
        save_pages(writer, side->slice.cqs.begin()->second.pages);
        const auto image = writer.take();
        Side fresh{limits, identity, other_registry, *memory};
        EXPECT_TRUE(fresh.objects.eqs.create(eq_command()));
        StateReader reader{image};
        return error_of(fresh.objects.cqs.restore(reader));
    };
    make_cq(eq);
    EXPECT_EQ(restore_error({1, 0, 1, 64, 0, 0, {}}), std::errc{});
    EXPECT_EQ(restore_error({0, 0, 1, 64, 0, 0, {}}), std::errc::invalid_argument);
    EXPECT_EQ(restore_error({limits.max_cq + 1, 0, 1, 64, 0, 0, {}}), std::errc::invalid_argument);
    EXPECT_EQ(restore_error({1, 3, 1, 64, 0, 0, {}}), std::errc::invalid_argument);
    EXPECT_EQ(restore_error({1, 0, 2, 64, 0, 0, {}}), std::errc::invalid_argument);
    EXPECT_EQ(restore_error({1, 0, 1, 65, 0, 0, {}}), std::errc::invalid_argument);
    EXPECT_EQ(restore_error({1, 0, 1, 1024, 0, 0, {}}),
              std::errc::invalid_argument);                                         // too few pages
    EXPECT_EQ(restore_error({1, 0, 1, 64, 4, 0, {}}), std::errc::invalid_argument); // a flag
}

} // namespace
} // namespace vrdma::verbs
