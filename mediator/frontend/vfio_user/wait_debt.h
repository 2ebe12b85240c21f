// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// What a device owes because others have waited for its memory: to stand still for a hundred times
// as long. So one device costs the others a hundredth of their time. A little is allowed at once,
// as a page may come from swap.
#pragma once

#include <algorithm>
#include <chrono>

#include "mediator/base/event_loop.h"

namespace vrdma::vfio_user {

class WaitDebt {
  public:
    using Clock = EventLoop::Clock;

    static constexpr int factor = 100;
    static constexpr std::chrono::milliseconds allowed{2};
    // A standstill ends before a driver's patience with ENABLE does (VRDMA_RESET_TIMEOUT_MS). Who
    // owes more goes on for a moment, in which what was asked for is done, and stands still again.
    static constexpr std::chrono::seconds longest{4};
    static constexpr std::chrono::milliseconds moment{50};
    // For the longest wait that is expected, with something to spare. Debts outlive clients, and
    // the next one may be another process.
    static constexpr std::chrono::seconds most{20};

    void add(std::chrono::nanoseconds waited, Clock::time_point now) noexcept {
        const std::chrono::nanoseconds owed = std::min<std::chrono::nanoseconds>(waited, most);
        paid_ = std::min(std::max(paid_, now) + factor * owed, now + most);
    }
    // It must stand still.
    bool due(Clock::time_point now) const noexcept { return paid_ - now > factor * allowed; }
    // When a standstill ends that has begun then.
    Clock::time_point end(Clock::time_point begin) const noexcept {
        return std::min(paid_, begin + longest);
    }

  private:
    Clock::time_point paid_{}; // from when on nothing is owed
};

} // namespace vrdma::vfio_user
