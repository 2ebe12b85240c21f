// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/poller/realtime_budget.h"

#include <gtest/gtest.h>

namespace vrdma::hca::soft {
namespace {

using namespace std::chrono_literals;

const Clock::time_point begin{100s};

// Runs without a pause; expects real-time priority until 450 ms of a second are used, and again in
// the next second.
TEST(RealtimeBudget, ends_within_a_second) {
    RealtimeBudget budget;
    budget.starts(begin);
    EXPECT_TRUE(budget.running(begin));
    EXPECT_TRUE(budget.running(begin + 449ms));
    EXPECT_FALSE(budget.running(begin + 450ms));
    EXPECT_FALSE(budget.running(begin + 999ms));
    EXPECT_TRUE(budget.running(begin + 1000ms));
    EXPECT_FALSE(budget.running(begin + 1450ms));
}

// Sleeps in between; expects only the running time to count.
TEST(RealtimeBudget, counts_time_awake) {
    RealtimeBudget budget;
    for (int i = 0; i < 8; ++i) { // 50 ms of each 100
        budget.starts(begin + i * 100ms);
        EXPECT_TRUE(budget.stops(begin + i * 100ms + 50ms));
    }
    budget.starts(begin + 800ms);
    EXPECT_TRUE(budget.running(begin + 849ms));
    EXPECT_FALSE(budget.stops(begin + 850ms));
}

// Has ordinary priority when it goes to sleep; expects real-time priority once its second is over.
TEST(RealtimeBudget, returns_with_the_next_second) {
    RealtimeBudget budget;
    budget.starts(begin);
    EXPECT_FALSE(budget.stops(begin + 900ms));
    budget.starts(begin + 1200ms);
    EXPECT_TRUE(budget.running(begin + 1600ms));
}

} // namespace
} // namespace vrdma::hca::soft
