// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// What a device owes because others have waited for its memory: to stand still for a hundred times
// as long. So one device costs the others a hundredth of their time, unless a single wait is longer
// than the longest standstill pays for. A little is allowed at once, as a page may come from swap.
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
    // A standstill ends before a driver's patience with ENABLE does (VRDMA_RESET_TIMEOUT_MS). The
    // host itself may have stood still, too.
    static constexpr std::chrono::seconds longest{4};

    void add(std::chrono::nanoseconds waited, Clock::time_point now) noexcept {
        paid_ = std::min(std::max(paid_, now) + factor * waited, now + longest);
    }
    // From when on nothing is owed.
    Clock::time_point paid() const noexcept { return paid_; }
    // It must stand still until then.
    bool due(Clock::time_point now) const noexcept { return paid_ - now > factor * allowed; }

  private:
    Clock::time_point paid_{};
};

} // namespace vrdma::vfio_user
