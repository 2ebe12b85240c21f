// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/poller/rounds.h"

#include <algorithm>

#include "mediator/hca/soft/poller/turns.h"
#include "mediator/hca/soft/slice/slice_core.h"
#include "mediator/memory/shared_words.h"

namespace vrdma::hca::soft {

bool Rounds::round() noexcept {
    // Reading the clock costs as much as an idle round, and scanning doorbells half as much.
    constexpr unsigned rounds_per_tick = 16;
    constexpr unsigned rounds_per_scan = 4;
    // Reading arm waits until the CQE's cache line has arrived at the guest. While there is work,
    // guests are therefore told only once per some rounds.
    constexpr unsigned rounds_per_tell = 8;
    if (++rounds_ % rounds_per_tick == 0) {
        tick();
    }
    const Scheduler::Served served = engine_.scheduler().serve(take_turn);
    bool worked = served.worked;
    worked |=
        engine_.cross_queue().serve(engine_.sniffs() ? sniffed_cross_requests_ : cross_requests_);
    worked |= serve_ports();
    if (rounds_ % rounds_per_scan == 0 || served.whole) {
        worked |= engine_.doorbells().scan_some();
    }
    if (!served.worked || ++rounds_untold_ >= rounds_per_tell) {
        worked |= tell_guests();
    }
    return worked;
}

bool Rounds::serve_ports() noexcept {
    bool worked = false;
    for (const auto& [uplink, port] : engine_.ports()) {
        worked |= port->serve();
    }
    return worked;
}

// Interrupts guests that asked for an event about completions.
bool Rounds::tell_guests() noexcept {
    rounds_untold_ = 0;
    return engine_.events().deliver();
}

void Rounds::tick() noexcept {
    Scheduler& scheduler = engine_.scheduler();
    scheduler.set_now(Clock::now());
    scheduler.expire();
    for (const auto& [uplink, port] : engine_.ports()) {
        port->expire(engine_.now());
    }
}

void Rounds::set_need_kick(bool need) noexcept {
    for (SliceCore* slice : engine_.slices()) {
        slice->set_need_kick(need);
    }
}

bool Rounds::prepare_sleep() noexcept {
    engine_.scheduler().cool_all();
    if (!falls_asleep_) {
        falls_asleep_ = true;
        set_need_kick(true);
        full_fence();
        engine_.doorbells().begin_pass();
    }
    const bool looked_at_all = engine_.doorbells().pass_some();
    const bool arrived = std::ranges::any_of(
        engine_.ports(), [](const auto& port) { return port.second->pending(); });
    if (engine_.scheduler().anything_to_do() || arrived) {
        end_sleep();
        return false;
    }
    if (!looked_at_all) {
        return false;
    }
    for (const auto& [uplink, port] : engine_.ports()) {
        port->settle_timers();
    }
    return true;
}

void Rounds::wake() noexcept {
    for (const auto& [uplink, port] : engine_.ports()) {
        port->woken();
    }
    tick();
    engine_.doorbells().begin_pass();
    engine_.doorbells().scan_some();
}

void Rounds::end_sleep() noexcept {
    falls_asleep_ = false;
    set_need_kick(false);
    tick();
}

Clock::time_point Rounds::sleep_limit() const noexcept {
    constexpr std::chrono::milliseconds event_queue_check{10};
    Clock::time_point limit = engine_.scheduler().deadline();
    for (const auto& [uplink, port] : engine_.ports()) {
        limit = std::min(limit, port->deadline());
    }
    limit = std::min(limit, engine_.events().deadline());
    if (engine_.events().waiting()) {
        limit = std::min(limit, Clock::now() + event_queue_check);
    }
    return limit;
}

} // namespace vrdma::hca::soft
