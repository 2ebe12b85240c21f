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
// when it is woken, by its priority (Config::realtime_priority). With spin_min == spin_max the
// budget is fixed, come what may.
#pragma once

#include <algorithm>

#include "mediator/hca/soft/config.h"

namespace vrdma::hca::soft {

class SpinPolicy {
  public:
    explicit SpinPolicy(const PollPolicy& policy)
        : min_{policy.spin_min}, max_{std::max(policy.spin_min, policy.spin_max)}, budget_{max_} {}

    Clock::duration budget(bool crowded) const noexcept { return crowded ? min_ : budget_; }

    // It slept so long, and then there was work.
    void slept(Clock::duration time) noexcept {
        if (time <= max_) {
            budget_ = std::min(max_, std::max(budget_ * 2, shortest));
        } else {
            budget_ = std::max(min_, budget_ / 2);
        }
    }

  private:
    static constexpr Clock::duration shortest = std::chrono::microseconds{2};

    const Clock::duration min_;
    const Clock::duration max_;
    Clock::duration budget_;
};

} // namespace vrdma::hca::soft
