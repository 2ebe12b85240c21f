// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/urgency.h"

#include <gtest/gtest.h>

namespace vrdma::hca::soft {
namespace {

using namespace std::chrono_literals;

const Clock::time_point start{100s};

// Runs without a pause; expects it to be urgent until 450 ms of a second are used, and again in the
// next second.
TEST(Urgency, ends_within_a_second) {
    Urgency urgency;
    urgency.starts(start);
    EXPECT_TRUE(urgency.running(start));
    EXPECT_TRUE(urgency.running(start + 449ms));
    EXPECT_FALSE(urgency.running(start + 450ms));
    EXPECT_FALSE(urgency.running(start + 999ms));
    EXPECT_TRUE(urgency.running(start + 1000ms));
    EXPECT_FALSE(urgency.running(start + 1450ms));
}

// Sleeps in between; expects only the time that it ran to count.
TEST(Urgency, counts_time_awake) {
    Urgency urgency;
    for (int i = 0; i < 8; ++i) { // 50 ms of each 100
        urgency.starts(start + i * 100ms);
        EXPECT_TRUE(urgency.stops(start + i * 100ms + 50ms));
    }
    urgency.starts(start + 800ms);
    EXPECT_TRUE(urgency.running(start + 849ms));
    EXPECT_FALSE(urgency.stops(start + 850ms));
}

// Is ordinary when it goes to sleep; expects it to be urgent once its second is over.
TEST(Urgency, returns_with_the_next_second) {
    Urgency urgency;
    urgency.starts(start);
    EXPECT_FALSE(urgency.stops(start + 900ms));
    urgency.starts(start + 1200ms);
    EXPECT_TRUE(urgency.running(start + 1600ms));
}

} // namespace
} // namespace vrdma::hca::soft
