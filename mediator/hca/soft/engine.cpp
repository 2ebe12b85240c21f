// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/engine.h"

#include <algorithm>

#include "mediator/hca/soft/flush.h"
#include "mediator/hca/soft/requester.h"
#include "mediator/memory/shared_words.h"

namespace vrdma::hca::soft {

Engine::Engine(const Config& config)
    : config_{config}, scheduler_{config_}, doorbells_{scheduler_} {}

void Engine::remove(SliceCore& slice) {
    slices_.erase(std::find(slices_.begin(), slices_.end(), &slice));
}

void Engine::queue_pair_added() {
    scheduler_.reserve(++queue_pairs_);
}

Turn Engine::take_turn(QueuePair& qp) noexcept {
    return qp.flushes() ? flush(qp) : send_messages(qp);
}

bool Engine::round() noexcept {
    constexpr unsigned rounds_a_tick = 16; // a look at the clock costs as much as a round
    if (++rounds_ % rounds_a_tick == 0) {
        scheduler_.set_now(Clock::now());
        scheduler_.expire();
    }
    bool worked = scheduler_.serve([this](QueuePair& qp) noexcept { return take_turn(qp); });
    worked |= doorbells_.scan_some();
    worked |= end_round();
    return worked;
}

bool Engine::prepare_sleep() noexcept {
    scheduler_.cool_all();
    for (SliceCore* slice : slices_) {
        slice->set_need_kick(true);
    }
    full_fence();
    doorbells_.scan_all();
    if (scheduler_.anything_to_do()) {
        end_sleep();
        return false;
    }
    return true;
}

void Engine::end_sleep() noexcept {
    for (SliceCore* slice : slices_) {
        slice->set_need_kick(false);
    }
    scheduler_.set_now(Clock::now());
    scheduler_.expire();
}

Clock::time_point Engine::sleep_limit() const noexcept {
    constexpr std::chrono::milliseconds event_queue_check{10};
    Clock::time_point limit = Clock::time_point::max();
    if (!scheduler_.timers().empty()) {
        limit = scheduler_.timers().next();
    }
    if (events_.waiting()) {
        limit = std::min(limit, Clock::now() + event_queue_check);
    }
    return limit;
}

} // namespace vrdma::hca::soft
