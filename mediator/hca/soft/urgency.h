// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// How long a poller may run before all ordinary threads.
//
// A poller that is woken has a message to deliver, and both guests may be spinning for it on the
// only cores: it must not wait for the end of their slices. But what needs its core besides, kernel
// threads included, gets nothing meanwhile, and of each second the kernel gives real-time threads
// 95 % and then stops them (sched(7)): a poller that never slept would stand still for 50 ms a
// second. So it is urgent for a part of each second, and then as ordinary as those that it shares
// the core with. The part is less than half, as the kernel's second may begin anywhere.
#pragma once

#include "mediator/hca/soft/config.h"

namespace vrdma::hca::soft {

class Urgency {
  public:
    // While it runs, now and then: whether it still is urgent.
    bool running(Clock::time_point now) noexcept {
        begin_second(now);
        return used_ + (now - since_) < budget;
    }

    // Before it sleeps: whether it will be urgent when it is woken.
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
    Clock::time_point since_{}; // it runs
    Clock::duration used_{};    // in this second, before that
};

} // namespace vrdma::hca::soft
