// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Counter sets, and the QPs that are bound to them.
#include "mediator/verbs/tests/verbs_test.h"

namespace vrdma::verbs {
namespace {

class CounterSetTest : public VerbsTest {
  protected:
    static constexpr auto busy = std::errc::device_or_resource_busy;

    Qpn make_qp() { return objects.qps.create(qp_command(pd, cq)).value().qpn; }
    CounterSetId alloc() { return objects.counter_sets.alloc().value(); }
    std::errc bind(Qpn bound, CounterSetId to) {
        return error_of(objects.qps.bind_counter_set(bound, to));
    }

    const PdId pd = make_pd();
    const Cqn cq = make_cq(make_eq());
    const Qpn qp = make_qp();
    const CounterSetId set = alloc();
};

TEST_F(CounterSetTest, TheTypeLimitsTheirNumber) {
    for (std::uint32_t i = 1; i < limits.max_counter_set; ++i) {
        ASSERT_TRUE(objects.counter_sets.alloc());
    }
    EXPECT_EQ(error_of(objects.counter_sets.alloc()), std::errc::not_enough_memory);
    ASSERT_TRUE(objects.counter_sets.dealloc(set));
    EXPECT_EQ(alloc(), set);
}

// Let the slice refuse to make a set; expect its error, and the id to stay available.
TEST_F(CounterSetTest, WhatTheSliceRefusesIsNotMade) {
    ASSERT_TRUE(objects.counter_sets.dealloc(set));
    for (std::uint32_t i = 0; i < 2 * limits.max_counter_set; ++i) {
        side->slice.next_error = std::errc::not_enough_memory;
        EXPECT_EQ(error_of(objects.counter_sets.alloc()), std::errc::not_enough_memory);
    }
    EXPECT_TRUE(objects.counter_sets.alloc());
}

TEST_F(CounterSetTest, UnknownOneCannotBeFreedOrAskedOrBoundTo) {
    const CounterSetId none{99};
    EXPECT_EQ(error_of(objects.counter_sets.dealloc(none)), invalid);
    EXPECT_EQ(error_of(objects.counter_sets.dealloc(CounterSetId{})), invalid);
    EXPECT_EQ(error_of(objects.counter_sets.counters(none)), invalid);
    EXPECT_EQ(bind(qp, none), invalid);
    EXPECT_EQ(bind(Qpn{qp.value ^ 1}, set), invalid);
    EXPECT_EQ(bind(Qpn{qp.value ^ 1}, CounterSetId{}), invalid);
}

// Bind a QP to a set, then to another, then free its set; expect EBUSY until the QP is unbound.
TEST_F(CounterSetTest, AQpIsBoundToOneWhichIsBusyThen) {
    EXPECT_EQ(bind(qp, set), std::errc{});
    EXPECT_EQ(side->slice.bound.at(qp), set);
    EXPECT_EQ(bind(qp, set), busy);
    EXPECT_EQ(bind(qp, alloc()), busy);
    EXPECT_EQ(error_of(objects.counter_sets.dealloc(set)), busy);
    EXPECT_EQ(bind(qp, CounterSetId{}), std::errc{});
    EXPECT_EQ(side->slice.bound.at(qp), CounterSetId{});
    EXPECT_TRUE(objects.counter_sets.dealloc(set));
    EXPECT_FALSE(side->slice.counter_sets.contains(set));
}

TEST_F(CounterSetTest, AQpThatGoesIsBoundNoMore) {
    EXPECT_EQ(bind(qp, set), std::errc{});
    ASSERT_TRUE(objects.qps.destroy(qp));
    EXPECT_TRUE(objects.counter_sets.dealloc(set));
}

TEST_F(CounterSetTest, RoundTrip) {
    const CounterSetId second = alloc();
    const Qpn other = make_qp();
    ASSERT_TRUE(objects.counter_sets.dealloc(set));
    EXPECT_EQ(bind(other, second), std::errc{});
    expect_round_trip();
    EXPECT_EQ(moved->slice.counter_sets, std::set{second});
    EXPECT_EQ(moved->slice.bound.at(other), second);
    EXPECT_FALSE(moved->slice.bound.contains(qp));
    EXPECT_EQ(error_of(moved->objects.counter_sets.dealloc(second)), busy);
}

TEST_F(CounterSetTest, RestoreValidates) {
    for (const std::uint32_t id : {0u, limits.max_counter_set + 1}) {
        StateWriter writer;
        writer.begin(Section::counter_sets, CounterSetState::version, 1);
        writer.put(CounterSetState{id});
        const auto image = writer.take();
        StateReader reader{image};
        Side other{limits, function_id, other_registry, *memory};
        EXPECT_EQ(error_of(other.objects.counter_sets.restore(reader)), invalid) << id;
    }
}

} // namespace
} // namespace vrdma::verbs
