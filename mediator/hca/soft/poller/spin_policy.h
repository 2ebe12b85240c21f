// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The time for which a poller without work keeps looking for work (spins) before it sleeps.
//
// Being woken costs tens to hundreds of microseconds (a trapped kick, a scheduler). So spinning
// pays as long as work usually comes sooner than that. The budget adapts as in KVM's halt polling:
// it doubles when work came soon after the poller had given up, and halves when a sleep was so long
// that no spin would have bridged it.
//
// If runnable threads outnumber cores, a spinning poller takes its time from the very guests that
// would give it work. Then it spins only for its minimum: when it is woken, its priority
// (Config::realtime_priority) puts it on a core at once. But the frames of a stream come faster
// than their sender could wake the poller for each. During a stream, the poller spins as long as a
// wakeup takes. With spin_min == spin_max, the budget is always fixed.
#pragma once

#include <algorithm>

#include "mediator/hca/soft/config.h"

namespace vrdma::hca::soft {

class SpinPolicy {
  public:
    explicit SpinPolicy(const PollPolicy& policy)
        : min_{policy.spin_min},
          max_{std::max(policy.spin_min, policy.spin_max)},
          budget_{max_},
          crowded_{min_} {}

    Clock::duration budget(bool crowded) const noexcept { return crowded ? crowded_ : budget_; }

    // Whether it matters that threads outnumber cores. Counting them takes longer than a message.
    bool depends_on_crowd() const noexcept { return crowded_ != budget_; }

    // Idle rounds between looks at the clock. A look costs as much as a round. A poller that must
    // not spin looks soon: an emulated processor takes a hundred times as long for a round.
    unsigned rounds_per_look(bool crowded) const noexcept {
        return budget(crowded) == Clock::duration::zero() ? 8 : 64;
    }

    // The poller slept for `time`, and then there was work.
    void slept(Clock::duration time) noexcept {
        crowded_ = std::clamp(time <= waking ? waking : min_, min_, max_);
        if (time <= max_) {
            budget_ = std::min(max_, std::max(budget_ * 2, shortest));
        } else {
            budget_ = budget_ / 2 < shortest ? min_ : std::max(min_, budget_ / 2);
        }
    }

  private:
    static constexpr Clock::duration shortest = std::chrono::microseconds{2};
    static constexpr Clock::duration waking = std::chrono::microseconds{10};

    const Clock::duration min_;
    const Clock::duration max_;
    Clock::duration budget_;
    Clock::duration crowded_;
};

} // namespace vrdma::hca::soft
