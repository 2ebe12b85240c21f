// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The debt of a device for whose memory others have waited. The device stands still for a hundred
// times as long as they waited, so it costs the others at most a hundredth of their time. A short
// wait costs nothing, because a page may come from swap.
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
    // A standstill ends before a driver gives up on ENABLE (VRDMA_RESET_TIMEOUT_MS). A device that
    // owes more continues for `moment`, executes what it was asked for, and stands still again.
    static constexpr std::chrono::seconds longest{4};
    static constexpr std::chrono::milliseconds moment{50};
    // Enough for the longest wait that is expected, with some margin. The debt is bounded, because
    // it outlives the client, and the next client may be another process.
    static constexpr std::chrono::seconds most{20};

    void add(std::chrono::nanoseconds waited, Clock::time_point now) noexcept {
        const std::chrono::nanoseconds owed = std::min<std::chrono::nanoseconds>(waited, most);
        paid_ = std::min(std::max(paid_, now) + factor * owed, now + most);
    }
    // Whether the device must stand still.
    bool due(Clock::time_point now) const noexcept { return paid_ - now > factor * allowed; }
    // When a standstill ends that began at `begin`.
    Clock::time_point end(Clock::time_point begin) const noexcept {
        return std::min(paid_, begin + longest);
    }

  private:
    Clock::time_point paid_{}; // when all is paid
};

} // namespace vrdma::vfio_user
