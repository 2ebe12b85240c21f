// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/poller/cpu_contention.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace vrdma::hca::soft {
namespace {

using namespace std::chrono_literals;

// Starts more spinning threads than there are cores; expects contention to be noticed, and to be
// reported for some milliseconds after they have ended.
TEST(CpuContention, sees_more_threads_than_cores) {
    CpuContention contention;
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
        crowded = contention.look(now);
    }
    stop.store(true);
    for (std::thread& spinner : spinners) {
        spinner.join();
    }
    EXPECT_TRUE(crowded);
    EXPECT_EQ(contention.look(now + 1ms), crowded);
}

} // namespace
} // namespace vrdma::hca::soft
