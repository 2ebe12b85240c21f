// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The work of a poller with its engine: rounds, in which it looks once at everything that may have
// work, and the preparation of its sleep.
#pragma once

#include "mediator/hca/soft/poller/cross_requests.h"
#include "mediator/hca/soft/slice/engine.h"

namespace vrdma::hca::soft {

class Rounds {
  public:
    explicit Rounds(Engine& engine) noexcept : engine_{engine} {}
    Rounds(const Rounds&) = delete;
    Rounds& operator=(const Rounds&) = delete;
    ~Rounds() = default;

    // Looks once at everything that may have work. Returns whether anything had.
    bool round() noexcept;

    // From here on, every guest must ring and kick. Returns false if the caller must call it again
    // because there is more to look at. It also returns false if there is work; then the
    // preparation is undone.
    bool prepare_sleep() noexcept;
    // After the sleep. The message that ended it has waited long enough, so guests are told that
    // they need not kick only when it has been executed. If there is no work, prepare_sleep() may
    // be called at once: it looks at everything that was not looked at since.
    void wake() noexcept;
    bool falls_asleep() const noexcept { return falls_asleep_; }
    // There is work, so guests need not kick.
    void stay_awake() noexcept {
        if (falls_asleep_) {
            end_sleep();
        }
    }
    // When the poller must wake up even if nobody kicks.
    Clock::time_point sleep_limit() const noexcept;

  private:
    void end_sleep() noexcept;
    bool serve_ports() noexcept;
    bool tell_guests() noexcept;
    void tick() noexcept;
    void set_need_kick(bool need) noexcept;

    Engine& engine_;
    CrossRequests cross_requests_;
    SniffedCrossRequests sniffed_cross_requests_;
    bool falls_asleep_ = false;
    unsigned rounds_ = 0;
    unsigned rounds_untold_ = 0;
};

} // namespace vrdma::hca::soft
