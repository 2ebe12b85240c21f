// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/verbs/tests/verbs_test.h"

namespace vrdma::verbs {
namespace {

class SrqTest : public VerbsTest {
  protected:
    template <typename Change>
    std::errc create_error(Change change) {
        auto cmd = srq_command(pd);
        change(cmd);
        return error_of(objects.srqs.create(cmd));
    }

    PdId pd = make_pd();
};

TEST_F(SrqTest, TheSliceGetsWhatTheGuestAskedFor) {
    const Srqn srq = objects.srqs.create(srq_command(pd, kernel, 128)).value();
    const hca::SrqSpec& spec = side->slice.srqs.at(srq);
    EXPECT_EQ(spec.pd, pd);
    EXPECT_EQ(spec.depth, 128u);
    EXPECT_EQ(spec.stride_shift, rq_stride_shift);
    EXPECT_EQ(spec.max_sge, 1u);
    EXPECT_EQ(spec.pages.length, 128u << rq_stride_shift);
}

TEST_F(SrqTest, NothingHasItsNumberThatMeansNone) {
    EXPECT_NE(make_srq(pd), Srqn{});
}

TEST_F(SrqTest, ShapeIsInRange) {
    for (const std::uint32_t depth : {0u, 3u, limits.max_qp_wr * 2, 0x80000000u}) {
        EXPECT_EQ(create_error([&](auto& cmd) { cmd.depth = depth; }), invalid) << depth;
    }
    EXPECT_EQ(create_error([](auto& cmd) { cmd.max_sge = 2; }), invalid); // beyond the stride
    EXPECT_EQ(create_error([](auto& cmd) { cmd.stride_shift = 4; }), invalid);
    EXPECT_EQ(create_error([](auto& cmd) { cmd.stride_shift = 13; }), invalid);
    EXPECT_EQ(create_error([&](auto& cmd) {
                  cmd.stride_shift = VRDMA_MAX_STRIDE_SHIFT;
                  cmd.max_sge = static_cast<std::uint16_t>(limits.max_sge + 1);
              }),
              invalid);
    EXPECT_EQ(create_error([](auto& cmd) { cmd.first_offset = 16; }), invalid);
}

TEST_F(SrqTest, ReservedFieldsAreZero) {
    EXPECT_EQ(create_error([](auto& cmd) { cmd.reserved0 = 1; }), invalid);
    EXPECT_EQ(create_error([](auto& cmd) { cmd.reserved1 = 1; }), invalid);
}

TEST_F(SrqTest, PdIsOfTheSameUserContext) {
    const UcontextId other = objects.ucontexts.alloc().value();
    EXPECT_EQ(create_error([](auto& cmd) { cmd.pd = 99; }), invalid);
    EXPECT_EQ(create_error([](auto& cmd) { cmd.ucontext = 9; }), invalid);
    EXPECT_EQ(create_error([&](auto& cmd) { cmd.ucontext = other.value; }), invalid);
    EXPECT_EQ(create_error([](auto&) {}), std::errc{});
}

TEST_F(SrqTest, LimitIsWithinTheDepth) {
    const Srqn srq = make_srq(pd);
    EXPECT_EQ(objects.srqs.query(srq).value(), 0u);
    ASSERT_TRUE(objects.srqs.modify({srq.value, 64}));
    EXPECT_EQ(objects.srqs.query(srq).value(), 64u);
    EXPECT_EQ(error_of(objects.srqs.modify({srq.value, 65})), invalid);
    EXPECT_EQ(error_of(objects.srqs.modify({srq.value + 1, 1})), invalid);
    EXPECT_EQ(error_of(objects.srqs.query(Srqn{0})), invalid);
}

// Resizes an SRQ: expects the slice to get the new ring, and the old one's share of the budget
// back.
TEST_F(SrqTest, Resize) {
    const Srqn srq = make_srq(pd);
    for (int again = 0; again < 1000; ++again) {
        ASSERT_TRUE(objects.srqs.resize(resize_command(srq, again % 2 == 0 ? 256 : 64)));
    }
    ASSERT_TRUE(objects.srqs.modify({srq.value, 64}));
    ASSERT_TRUE(objects.srqs.resize(resize_command(srq, 128)));
    EXPECT_EQ(side->slice.srqs.at(srq).depth, 128u);
    EXPECT_EQ(side->slice.srqs.at(srq).pages.length, 128u << rq_stride_shift);
    EXPECT_EQ(objects.srqs.query(srq).value(), 64u);
    EXPECT_TRUE(objects.srqs.modify({srq.value, 128}));
}

TEST_F(SrqTest, ResizeArmsTheLimit) {
    const Srqn srq = make_srq(pd);
    auto cmd = resize_command(srq, 128);
    cmd.flags = VRDMA_RESIZE_SRQ_LIMIT;
    cmd.limit = 128;
    ASSERT_TRUE(objects.srqs.resize(cmd));
    EXPECT_EQ(objects.srqs.query(srq).value(), 128u);
}

TEST_F(SrqTest, ResizeValidates) {
    const Srqn srq = make_srq(pd);
    const auto error = [&](auto spoil) {
        auto cmd = resize_command(srq, 128);
        spoil(cmd);
        return error_of(objects.srqs.resize(cmd));
    };
    EXPECT_EQ(error([](auto& cmd) { cmd.srqn = 99; }), invalid);
    EXPECT_EQ(error([](auto& cmd) { cmd.depth = 0; }), invalid);
    EXPECT_EQ(error([](auto& cmd) { cmd.depth = 100; }), invalid);
    EXPECT_EQ(error([&](auto& cmd) { cmd.depth = limits.max_qp_wr * 2; }), invalid);
    EXPECT_EQ(error([](auto& cmd) { cmd.depth = 256; }), invalid); // too few pages
    EXPECT_EQ(error([](auto& cmd) { cmd.first_offset = 16; }), invalid);
    EXPECT_EQ(error([](auto& cmd) { cmd.flags = 2; }), invalid);
    EXPECT_EQ(error([](auto& cmd) { cmd.limit = 1; }), invalid); // without the flag
    EXPECT_EQ(error([](auto& cmd) { cmd.reserved = 1; }), invalid);
    EXPECT_EQ(error([](auto& cmd) {
                  cmd.flags = VRDMA_RESIZE_SRQ_LIMIT;
                  cmd.limit = 129;
              }),
              invalid);
    side->slice.next_error = std::errc::invalid_argument; // more is posted
    EXPECT_EQ(error([](auto&) {}), invalid);
    EXPECT_EQ(side->slice.srqs.at(srq).depth, 64u);
    EXPECT_EQ(error([](auto&) {}), std::errc{});
}

TEST_F(SrqTest, BusyWhileAQpUsesIt) {
    const Cqn cq = make_cq(make_eq());
    const Srqn srq = make_srq(pd);
    const auto qp = objects.qps.create(srq_qp_command(pd, cq, srq)).value();
    EXPECT_EQ(side->slice.qps.at(qp.qpn).srq, srq);
    EXPECT_EQ(error_of(objects.srqs.destroy(srq)), std::errc::device_or_resource_busy);
    EXPECT_EQ(error_of(objects.pds.dealloc(pd)), std::errc::device_or_resource_busy);
    ASSERT_TRUE(objects.qps.destroy(qp.qpn));
    EXPECT_TRUE(objects.srqs.destroy(srq));
    EXPECT_EQ(error_of(objects.srqs.destroy(srq)), invalid);
    EXPECT_TRUE(objects.pds.dealloc(pd));
}

// Ask for QPs with an unknown SRQ, with one of another user context, and with an RQ besides the
// SRQ.
TEST_F(SrqTest, AQpTakesOneOfItsOwner) {
    const UcontextId other = objects.ucontexts.alloc().value();
    const Cqn cq = make_cq(make_eq());
    const Srqn foreign = make_srq(make_pd(other), other);
    const auto error = [&](Srqn srq, std::uint32_t rq_depth, std::uint16_t max_recv_sge) {
        auto cmd = srq_qp_command(pd, cq, srq);
        cmd.rq_depth = rq_depth;
        cmd.max_recv_sge = max_recv_sge;
        cmd.pages = pages(vrdma_qp_buffer_size(64, sq_stride_shift, rq_depth, rq_stride_shift));
        return error_of(objects.qps.create(cmd));
    };
    const Srqn srq = make_srq(pd);
    EXPECT_EQ(error(Srqn{99}, 0, 0), invalid);
    EXPECT_EQ(error(foreign, 0, 0), invalid);
    EXPECT_EQ(error(srq, 16, 0), invalid);
    EXPECT_EQ(error(srq, 0, 1), invalid);
    EXPECT_EQ(error(srq, 0, 0), std::errc{});
}

TEST_F(SrqTest, TheTypeLimitsTheirNumber) {
    for (std::uint32_t i = 0; i < limits.max_srq; ++i) {
        make_srq(pd);
    }
    EXPECT_EQ(create_error([](auto&) {}), std::errc::not_enough_memory);
}

TEST_F(SrqTest, AFailureOfTheSliceLeavesNothingBehind) {
    side->slice.next_error = std::errc::not_enough_memory;
    EXPECT_EQ(create_error([](auto&) {}), std::errc::not_enough_memory);
    EXPECT_TRUE(objects.pds.dealloc(pd));
}

TEST_F(SrqTest, RoundTrip) {
    const UcontextId owner = objects.ucontexts.alloc().value();
    const PdId users_pd = make_pd(owner);
    const Srqn srq = make_srq(users_pd, owner);
    const Cqn cq = make_cq(make_eq(), owner);
    const Qpn qp = objects.qps.create(srq_qp_command(users_pd, cq, srq, owner)).value().qpn;
    ASSERT_TRUE(objects.srqs.resize(resize_command(srq, 256)));
    side->slice.srq_states[srq] = {.head = 70, .limit = 3, .events = 0};
    side->slice.qp_states[qp].holds_receive = 1;
    side->slice.qp_states[qp].held_sges = 1;
    side->slice.held_receives[qp] = {{0x1000, 10, 7}};
    expect_round_trip();
    EXPECT_EQ(moved->slice.srq_states.at(srq).head, 70u);
    EXPECT_EQ(moved->slice.srqs.at(srq).depth, 256u);
    EXPECT_EQ(moved->slice.srqs.at(srq).pages.blocks, side->slice.srqs.at(srq).pages.blocks);
    EXPECT_EQ(moved->slice.qps.at(qp).srq, srq);
    EXPECT_EQ(moved->slice.held_receives.at(qp).front().length, 10u);
    EXPECT_EQ(error_of(moved->objects.srqs.destroy(srq)), std::errc::device_or_resource_busy);
    EXPECT_EQ(error_of(moved->objects.pds.dealloc(users_pd)), std::errc::device_or_resource_busy);
}

TEST_F(SrqTest, RestoreValidates) {
    const auto restore_error = [&](const SrqState& state) {
        StateWriter writer;
        writer.begin(Section::srqs, SrqState::version, 1);
        writer.put(state);
        save_pages(writer, side->slice.srqs.begin()->second.pages);
        const auto image = writer.take();
        Side fresh{limits, identity, other_registry, *memory};
        EXPECT_TRUE(fresh.objects.pds.alloc(kernel));
        StateReader reader{image};
        return error_of(fresh.objects.srqs.restore(reader));
    };
    make_srq(pd);
    const SrqState good{1, 0, pd.value, 0, 0, 64, 1, rq_stride_shift, {}};
    EXPECT_EQ(restore_error(good), std::errc{});
    const auto changed = [&](auto change) {
        SrqState state = good;
        change(state);
        return restore_error(state);
    };
    EXPECT_EQ(changed([](auto& state) { state.id = 0; }), invalid);
    EXPECT_EQ(changed([&](auto& state) { state.id = limits.max_srq + 1; }), invalid);
    EXPECT_EQ(changed([](auto& state) { state.ucontext = 3; }), invalid);
    EXPECT_EQ(changed([](auto& state) { state.pd = 99; }), invalid);
    EXPECT_EQ(changed([](auto& state) { state.xrcd = 1; }), invalid);
    EXPECT_EQ(changed([](auto& state) { state.cq = 1; }), invalid);
    EXPECT_EQ(changed([](auto& state) { state.depth = 65; }), invalid);
    EXPECT_EQ(changed([](auto& state) { state.depth = 1024; }), invalid); // too few pages
    EXPECT_EQ(changed([](auto& state) { state.max_sge = 2; }), invalid);
    EXPECT_EQ(changed([](auto& state) { state.stride_shift = 256 + 5; }), invalid);
    EXPECT_EQ(changed([](auto& state) { state.slice.limit = 65; }), invalid);
}

} // namespace
} // namespace vrdma::verbs
