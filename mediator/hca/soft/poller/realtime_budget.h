// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The time for which a poller may run with priority over all ordinary threads.
//
// A poller that is woken has a message to deliver. Both guests may be spinning for it on the only
// cores, so the poller must not wait for the end of their time slices. But everything else that
// needs its core, kernel threads included, gets no time meanwhile. And the kernel gives real-time
// threads only 95 % of each second and then stops them (sched(7)): a poller that never slept would
// be stopped for 50 ms per second. So the poller is urgent (real-time) for a part of each second,
// and then an ordinary thread like those that share its core. The part is less than half, because
// the kernel's second may begin anywhere.
#pragma once

#include "mediator/hca/soft/config.h"

namespace vrdma::hca::soft {

class RealtimeBudget {
  public:
    // Called now and then while the poller runs. Whether it is still urgent.
    bool running(Clock::time_point now) noexcept {
        begin_second(now);
        return used_ + (now - since_) < budget;
    }

    // Called before the poller sleeps. Whether it will be urgent when it is woken.
    bool stops(Clock::time_point now) noexcept {
        const bool urgent = running(now);
        used_ += now - since_;
        since_ = now;
        return urgent;
    }

    void starts(Clock::time_point now) noexcept {
        since_ = now;
        begin_second(now);
    }

  private:
    static constexpr std::chrono::milliseconds budget{450};

    void begin_second(Clock::time_point now) noexcept {
        if (now >= end_) {
            end_ = now + std::chrono::seconds{1};
            used_ = Clock::duration::zero();
            since_ = now;
        }
    }

    Clock::time_point end_{};   // of the second
    Clock::time_point since_{}; // begin of the current run
    Clock::duration used_{};    // run time in this second before since_
};

} // namespace vrdma::hca::soft
