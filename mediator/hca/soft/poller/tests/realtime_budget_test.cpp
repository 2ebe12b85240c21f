// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/poller/realtime_budget.h"

#include <gtest/gtest.h>

namespace vrdma::hca::soft {
namespace {

using namespace std::chrono_literals;

const Clock::time_point start{100s};

// Runs without a pause; expects real-time priority until 450 ms of a second are used, and again in
// the next second.
TEST(RealtimeBudget, ends_within_a_second) {
    RealtimeBudget budget;
    budget.starts(start);
    EXPECT_TRUE(budget.running(start));
    EXPECT_TRUE(budget.running(start + 449ms));
    EXPECT_FALSE(budget.running(start + 450ms));
    EXPECT_FALSE(budget.running(start + 999ms));
    EXPECT_TRUE(budget.running(start + 1000ms));
    EXPECT_FALSE(budget.running(start + 1450ms));
}

// Sleeps in between; expects only the running time to count.
TEST(RealtimeBudget, counts_time_awake) {
    RealtimeBudget budget;
    for (int i = 0; i < 8; ++i) { // 50 ms of each 100
        budget.starts(start + i * 100ms);
        EXPECT_TRUE(budget.stops(start + i * 100ms + 50ms));
    }
    budget.starts(start + 800ms);
    EXPECT_TRUE(budget.running(start + 849ms));
    EXPECT_FALSE(budget.stops(start + 850ms));
}

// Has ordinary priority when it goes to sleep; expects real-time priority once its second is over.
TEST(RealtimeBudget, returns_with_the_next_second) {
    RealtimeBudget budget;
    budget.starts(start);
    EXPECT_FALSE(budget.stops(start + 900ms));
    budget.starts(start + 1200ms);
    EXPECT_TRUE(budget.running(start + 1600ms));
}

} // namespace
} // namespace vrdma::hca::soft
