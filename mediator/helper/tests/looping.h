// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A control thread for tests.
#pragma once

#include <gtest/gtest.h>

#include <functional>

#include "mediator/base/event_loop.h"

namespace vrdma::helper {

// Runs the loop until that is so.
inline void run_until(EventLoop& loop, const std::function<bool()>& so) {
    constexpr std::chrono::seconds most{60};
    const auto end = EventLoop::Clock::now() + most;
    EventLoop::Timer timer;
    std::function<void()> look = [&] {
        if (so() || EventLoop::Clock::now() > end) {
            return loop.stop();
        }
        timer = loop.after(std::chrono::milliseconds{10}, look);
    };
    timer = loop.after(std::chrono::milliseconds{0}, look);
    ASSERT_TRUE(loop.run());
    ASSERT_TRUE(so());
}

} // namespace vrdma::helper
