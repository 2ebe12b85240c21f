// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// How long a poller has had work. The poller notes the times in which it has none, when it reads
// the clock anyway, so a poller with work does nothing for this.
#pragma once

#include <algorithm>
#include <atomic>

#include "mediator/hca/soft/config.h"

namespace vrdma::hca::soft {

class BusyTime {
  public:
    // Before the poller's thread starts.
    void starts(Clock::time_point now) noexcept { started_ = now; }

    // The poller's thread: there was no work for this time, or there is none from `now` on.
    void was_idle(Clock::duration time) noexcept {
        idle_.store(idle_.load(std::memory_order_relaxed) + time, std::memory_order_relaxed);
    }
    void falls_asleep(Clock::time_point now) noexcept {
        asleep_since_.store(now, std::memory_order_relaxed);
    }
    void wakes(Clock::time_point now) noexcept {
        was_idle(now - asleep_since_.load(std::memory_order_relaxed));
        asleep_since_.store(awake, std::memory_order_relaxed);
    }

    // One other thread. Never decreases: a poller that wakes meanwhile may be seen as idle twice.
    Clock::duration until(Clock::time_point now) noexcept {
        const auto since = asleep_since_.load(std::memory_order_relaxed);
        const auto sleeps = since == awake ? Clock::duration::zero()
                                           : std::max(Clock::duration::zero(), now - since);
        const auto busy = now - started_ - sleeps - idle_.load(std::memory_order_relaxed);
        reported_ = std::max(reported_, busy);
        return reported_;
    }

  private:
    static constexpr Clock::time_point awake = Clock::time_point::max();

    Clock::time_point started_{};
    std::atomic<Clock::duration> idle_{}; // in the past
    std::atomic<Clock::time_point> asleep_since_{awake};
    Clock::duration reported_{};
};

} // namespace vrdma::hca::soft
