// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/crowding.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace vrdma::hca::soft {
namespace {

using namespace std::chrono_literals;

// Starts more threads than there are cores, all of which spin; expects them to be noticed, and the
// count to stand for some milliseconds though they have ended.
TEST(Crowding, sees_more_threads_than_cores) {
    Crowding crowding;
    std::atomic<bool> stop{false};
    std::vector<std::thread> spinners;
    for (unsigned i = 0; i < std::thread::hardware_concurrency() + 1; ++i) {
        spinners.emplace_back([&stop] {
            while (!stop.load(std::memory_order_relaxed)) {
            }
        });
    }
    const Clock::time_point start = Clock::now();
    Clock::time_point now = start;
    bool crowded = false;
    while (!crowded && now - start < 20s) {
        now = Clock::now();
        crowded = crowding.look(now);
    }
    stop.store(true);
    for (std::thread& spinner : spinners) {
        spinner.join();
    }
    EXPECT_TRUE(crowded);
    EXPECT_EQ(crowding.look(now + 1ms), crowded);
}

} // namespace
} // namespace vrdma::hca::soft
