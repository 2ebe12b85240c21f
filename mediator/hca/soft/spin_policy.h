// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// How long a poller that finds nothing goes on looking before it sleeps.
//
// Being woken costs tens to hundreds of microseconds (a trapped kick, a scheduler), so looking on
// pays as long as work tends to come sooner than that. The budget follows what happened, as KVM's
// halt polling does: it doubles when work came soon after the poller had given up, and halves when
// a sleep was so long that no spin would have bridged it.
//
// Where runnable threads outnumber cores, a spinning poller takes its time from the very guests
// that would give it work. Then it spins its minimum: a poller that sleeps is put on a core at once
// when it is woken, by its priority (Config::realtime_priority). But a stream's frames come faster
// than whoever sends them could wake it for each: while they do, it spins as long as being woken
// takes. With spin_min == spin_max the budget is fixed, come what may.
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

    // Idle rounds between looks at the clock, which costs as much as one. Who is not to spin looks
    // soon: an emulated processor takes a hundred times as long for a round.
    unsigned rounds_a_look(bool crowded) const noexcept {
        return budget(crowded) == Clock::duration::zero() ? 8 : 64;
    }

    // It slept so long, and then there was work.
    void slept(Clock::duration time) noexcept {
        crowded_ = std::clamp(time <= waking ? waking : min_, min_, max_);
        if (time <= max_) {
            budget_ = std::min(max_, std::max(budget_ * 2, shortest));
        } else {
            budget_ = std::max(min_, budget_ / 2);
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
