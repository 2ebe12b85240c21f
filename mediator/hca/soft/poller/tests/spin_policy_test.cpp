// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/poller/spin_policy.h"

#include <gtest/gtest.h>

namespace vrdma::hca::soft {
namespace {

using namespace std::chrono_literals;

constexpr PollPolicy policy{.spin_min = 5us, .spin_max = 80us};

// The poller sleeps long, then shortly; expects the budget to halve down to the minimum, and to
// double up again.
TEST(SpinPolicy, follows_how_long_it_slept) {
    SpinPolicy spin{policy};
    EXPECT_EQ(spin.budget(false), 80us);
    spin.slept(10ms);
    EXPECT_EQ(spin.budget(false), 40us);
    for (int i = 0; i < 10; ++i) {
        spin.slept(10ms);
    }
    EXPECT_EQ(spin.budget(false), 5us);
    spin.slept(80us);
    EXPECT_EQ(spin.budget(false), 10us);
    for (int i = 0; i < 10; ++i) {
        spin.slept(1us);
    }
    EXPECT_EQ(spin.budget(false), 80us);
}

// The budget must not stay at a minimum of 0 forever.
TEST(SpinPolicy, grows_from_nothing) {
    SpinPolicy spin{{.spin_min = 0us, .spin_max = 80us}};
    for (int i = 0; i < 100; ++i) {
        spin.slept(10ms);
    }
    EXPECT_EQ(spin.budget(false), 0us);
    spin.slept(1us);
    EXPECT_GE(spin.budget(false), 2us);
}

// The poller sleeps long again and again; expects it to stop counting threads, which cannot change
// its budget any more. Work comes soon again; expects it to count.
TEST(SpinPolicy, does_not_ask_what_does_not_matter) {
    SpinPolicy spin{{.spin_min = 0us, .spin_max = 80us}};
    EXPECT_TRUE(spin.depends_on_crowd());
    for (int i = 0; i < 10; ++i) {
        spin.slept(10ms);
    }
    EXPECT_FALSE(spin.depends_on_crowd());
    spin.slept(20us);
    EXPECT_TRUE(spin.depends_on_crowd());
}

// The host's CPUs are contended; expects the minimum meanwhile.
TEST(SpinPolicy, gives_way_on_a_crowded_host) {
    const SpinPolicy spin{policy};
    EXPECT_EQ(spin.budget(true), 5us);
    EXPECT_EQ(spin.budget(false), 80us);
}

// CPUs are contended, and work comes as soon as the poller has stopped spinning; expects it to spin
// for a while, and to stop as soon as work takes longer than that.
TEST(SpinPolicy, spins_through_a_stream_on_a_crowded_host) {
    SpinPolicy spin{policy};
    spin.slept(8us);
    EXPECT_EQ(spin.budget(true), 10us);
    spin.slept(11us);
    EXPECT_EQ(spin.budget(true), 5us);
}

// spin_max is below that budget; expects a poller with contended CPUs not to exceed it.
TEST(SpinPolicy, does_not_spin_more_than_it_may) {
    SpinPolicy spin{{.spin_min = 0us, .spin_max = 3us}};
    spin.slept(1us);
    EXPECT_EQ(spin.budget(true), 3us);
}

// A poller must not spin at all; expects it to look at the clock sooner, so that it sleeps, but not
// at once.
TEST(SpinPolicy, sleeps_soon_where_it_does_not_spin) {
    const SpinPolicy spin{{.spin_min = 0us, .spin_max = 80us}};
    EXPECT_LT(spin.rounds_per_look(true), spin.rounds_per_look(false));
    EXPECT_GT(spin.rounds_per_look(true), 1u);
}

// The budget is fixed; expects it never to change.
TEST(SpinPolicy, can_be_fixed) {
    SpinPolicy spin{{.spin_min = 2s, .spin_max = 2s}};
    spin.slept(1h);
    EXPECT_EQ(spin.budget(false), 2s);
    EXPECT_EQ(spin.budget(true), 2s);
}

} // namespace
} // namespace vrdma::hca::soft
