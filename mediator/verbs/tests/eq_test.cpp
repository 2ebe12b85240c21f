// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/verbs/tests/verbs_test.h"

namespace vrdma::verbs {
namespace {

class EqTest : public VerbsTest {
  protected:
    // Restores this one record.
    std::errc restore_error(const EqState& state) {
        const auto buffer = objects.resources.lists.read(
            eq_command().pages, 0, sizeof(vrdma_eq_control) + 16 * sizeof(vrdma_eqe));
        StateWriter writer;
        writer.begin(Section::eqs, EqState::version, 1);
        writer.put(state);
        save_pages(writer, buffer->pages);
        const auto image = writer.take();
        Side fresh{limits, identity, other_registry, *memory};
        StateReader reader{image};
        return error_of(fresh.objects.eqs.restore(reader));
    }
};

TEST_F(EqTest, TheSliceGetsWhatTheGuestAskedFor) {
    const EqId eq = objects.eqs.create(eq_command(256)).value();
    const hca::EqSpec& spec = side->slice.eqs.at(eq);
    EXPECT_EQ(spec.depth, 256u);
    EXPECT_EQ(spec.vector, 1u);
    EXPECT_EQ(spec.pages.length, sizeof(vrdma_eq_control) + 256 * sizeof(vrdma_eqe));
}

TEST_F(EqTest, DepthIsAPowerOfTwoInRange) {
    for (const std::uint32_t depth : {0u, 8u, 17u, 0x80000000u, VRDMA_EQ_MAX_DEPTH * 2u}) {
        auto cmd = eq_command();
        cmd.depth = depth;
        EXPECT_EQ(error_of(objects.eqs.create(cmd)), std::errc::invalid_argument) << depth;
    }
}

TEST_F(EqTest, VectorIsTheDevices) {
    auto cmd = eq_command();
    cmd.vector = limits.vectors;
    EXPECT_EQ(error_of(objects.eqs.create(cmd)), std::errc::invalid_argument);
}

TEST_F(EqTest, TheTypeLimitsTheirNumber) {
    for (std::uint32_t i = 0; i < limits.max_eq; ++i) {
        make_eq();
    }
    EXPECT_EQ(error_of(objects.eqs.create(eq_command())), std::errc::not_enough_memory);
}

TEST_F(EqTest, AFailureOfTheSliceLeavesNothingBehind) {
    for (std::uint32_t i = 0; i < 2 * limits.max_eq; ++i) {
        side->slice.next_error = std::errc::not_enough_memory;
        EXPECT_EQ(error_of(objects.eqs.create(eq_command())), std::errc::not_enough_memory);
    }
    EXPECT_TRUE(objects.eqs.create(eq_command()));
}

TEST_F(EqTest, BusyWhileACqUsesIt) {
    const EqId eq = make_eq();
    const Cqn cq = make_cq(eq);
    EXPECT_EQ(error_of(objects.eqs.destroy(eq)), std::errc::device_or_resource_busy);
    ASSERT_TRUE(objects.cqs.destroy(cq));
    EXPECT_TRUE(objects.eqs.destroy(eq));
    EXPECT_EQ(error_of(objects.eqs.destroy(eq)), std::errc::invalid_argument);
}

TEST_F(EqTest, RoundTrip) {
    const EqId eq = make_eq();
    make_eq();
    side->slice.eq_states[eq].producer = 77;
    expect_round_trip();
    EXPECT_EQ(moved->slice.eq_states.at(eq).producer, 77u);
}

// A slice uses the first EQ that it gets for async events.
TEST_F(EqTest, TheOneForAsyncEventsIsRestoredFirst) {
    const EqId first = make_eq();
    make_eq();
    ASSERT_TRUE(objects.eqs.destroy(first));
    const EqId async = make_eq();
    expect_round_trip();
    EXPECT_EQ(moved->slice.eq_order.front(), async);
}

TEST_F(EqTest, OnlyOneCanBeForAsyncEvents) {
    make_eq();
    StateWriter writer;
    writer.begin(Section::eqs, EqState::version, 2);
    for (std::uint32_t id = 1; id <= 2; ++id) {
        writer.put(EqState{id, 16, 0, 1, {}});
        save_pages(writer, side->slice.eqs.at(EqId{1}).pages);
    }
    const auto image = writer.take();
    Side fresh{limits, identity, other_registry, *memory};
    StateReader reader{image};
    EXPECT_EQ(error_of(fresh.objects.eqs.restore(reader)), std::errc::invalid_argument);
}

TEST_F(EqTest, RestoreValidates) {
    EXPECT_EQ(restore_error({1, 16, 0, 1, {}}), std::errc{});
    EXPECT_EQ(restore_error({0, 16, 0, 1, {}}), std::errc::invalid_argument);
    EXPECT_EQ(restore_error({limits.max_eq + 1, 16, 0, 1, {}}), std::errc::invalid_argument);
    EXPECT_EQ(restore_error({1, 15, 0, 1, {}}), std::errc::invalid_argument);
    EXPECT_EQ(restore_error({1, 65536, 0, 1, {}}), std::errc::invalid_argument); // too few pages
    EXPECT_EQ(restore_error({1, 16, limits.vectors, 1, {}}), std::errc::invalid_argument);
    EXPECT_EQ(restore_error({1, 16, 0, 2, {}}), std::errc::invalid_argument);
}

} // namespace
} // namespace vrdma::verbs
