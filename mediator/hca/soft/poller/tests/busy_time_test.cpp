// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/poller/busy_time.h"

#include <gtest/gtest.h>

namespace vrdma::hca::soft {
namespace {

using namespace std::chrono_literals;

constexpr Clock::time_point poller_start{1h};

// The poller works for a second, looks in vain for another, sleeps for one; expects one busy
// second.
TEST(BusyTime, leaves_looking_and_sleeping_out) {
    BusyTime busy;
    busy.starts(poller_start);
    EXPECT_EQ(busy.until(poller_start + 1s), 1s);
    busy.was_idle(1s);
    EXPECT_EQ(busy.until(poller_start + 2s), 1s);
    busy.falls_asleep(poller_start + 2s);
    EXPECT_EQ(busy.until(poller_start + 2500ms), 1s);
    busy.wakes(poller_start + 3s);
    EXPECT_EQ(busy.until(poller_start + 4s), 2s);
}

// A reading that sees the poller as idle twice must not make a counter fall.
TEST(BusyTime, never_decreases) {
    BusyTime busy;
    busy.starts(poller_start);
    EXPECT_EQ(busy.until(poller_start + 2s), 2s);
    busy.was_idle(1s);
    EXPECT_EQ(busy.until(poller_start + 2s), 2s);
    EXPECT_EQ(busy.until(poller_start + 4s), 3s);
}

} // namespace
} // namespace vrdma::hca::soft
