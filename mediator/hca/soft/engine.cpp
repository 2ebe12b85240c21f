// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/engine.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "mediator/hca/soft/flush.h"
#include "mediator/hca/soft/requester.h"
#include "mediator/memory/shared_words.h"

namespace vrdma::hca::soft {

Engine::Engine(const Config& config, std::function<void()> wake)
    : config_{config}, scheduler_{config_}, cross_queue_{std::move(wake)} {}

Engine::~Engine() {
    for (const auto& [uplink, port] : ports_) {
        const auto& count = port->unclaimed().value;
        spdlog::debug(
            "uplink {}: packets for no device here: {} to unknown QPs, {} malformed, "
            "{} with a wrong ICRC, {} P_Key, {} source",
            uplink, count[VRDMA_COUNTER_UNKNOWN_QPS], count[VRDMA_COUNTER_MALFORMED_PACKETS],
            count[VRDMA_COUNTER_BAD_ICRCS], count[VRDMA_COUNTER_BAD_PKEYS],
            count[VRDMA_COUNTER_WRONG_SOURCES]);
    }
}

void Engine::add(SliceCore& slice) {
    slices_.reserve(slices_.size() + 1); // if memory is short, the slice is not added anywhere
    doorbells_.reserve(slices_.size() + 1);
    scheduler_.add(slice.run_queue());
    slices_.push_back(&slice);
}

void Engine::remove(SliceCore& slice) {
    scheduler_.remove(slice.run_queue());
    cross_queue_.forget(slice.run_queue());
    if (slice.port() != nullptr) {
        slice.port()->forget(slice.run_queue());
    }
    slices_.erase(std::find(slices_.begin(), slices_.end(), &slice));
}

roce::Port* Engine::find_port(const std::string& uplink) const noexcept {
    const auto found = std::ranges::find(ports_, uplink, &decltype(ports_)::value_type::first);
    return found != ports_.end() ? found->second.get() : nullptr;
}

Result<roce::Port*> Engine::add_port(std::string uplink, std::unique_ptr<wire::Uplink> frames) {
    auto signal = EventFd::create();
    if (!signal) {
        return fail(signal.error());
    }
    auto port = std::make_unique<roce::Port>(*this, std::move(frames), std::move(*signal));
    return ports_.emplace_back(std::move(uplink), std::move(port)).second.get();
}

void Engine::set_link(const std::string& uplink, bool up, std::uint32_t mbps) noexcept {
    roce::Port* const port = find_port(uplink);
    port->set_link(up, mbps);
    for (SliceCore* slice : slices_) {
        if (slice->port() == port) {
            slice->announce_port();
        }
    }
}

void Engine::queue_pair_added() {
    scheduler_.reserve(++queue_pairs_);
    for (const auto& [uplink, port] : ports_) {
        port->reserve(queue_pairs_);
    }
}

Turn Engine::take_turn(QueuePair& qp) noexcept {
    return qp.flushes() ? flush(qp) : send_messages(qp);
}

bool Engine::round() noexcept {
    // Reading the clock costs as much as an idle round, and scanning doorbells half as much.
    constexpr unsigned rounds_per_tick = 16;
    constexpr unsigned rounds_per_scan = 4;
    // Reading arm waits until the CQE's cache line has arrived at the guest. While there is work,
    // guests are therefore told only once per some rounds.
    constexpr unsigned rounds_per_tell = 8;
    if (++rounds_ % rounds_per_tick == 0) {
        scheduler_.set_now(Clock::now());
        scheduler_.expire();
        for (const auto& [uplink, port] : ports_) {
            port->expire(now());
        }
    }
    const Scheduler::Served served =
        scheduler_.serve([this](QueuePair& qp) noexcept { return take_turn(qp); });
    bool worked = served.worked;
    worked |= cross_queue_.serve();
    for (const auto& [uplink, port] : ports_) {
        worked |= port->serve();
    }
    if (rounds_ % rounds_per_scan == 0 || served.whole) {
        worked |= doorbells_.scan_some();
    }
    if (!served.worked || ++rounds_untold_ >= rounds_per_tell) {
        worked |= tell_guests();
    }
    return worked;
}

bool Engine::tell_guests() noexcept {
    rounds_untold_ = 0;
    return events_.deliver();
}

bool Engine::prepare_sleep() noexcept {
    scheduler_.cool_all();
    if (!falls_asleep_) {
        falls_asleep_ = true;
        for (SliceCore* slice : slices_) {
            slice->set_need_kick(true);
        }
        full_fence();
        doorbells_.begin_pass();
    }
    const bool looked_at_all = doorbells_.pass_some();
    const bool arrived =
        std::ranges::any_of(ports_, [](const auto& port) { return port.second->pending(); });
    if (scheduler_.anything_to_do() || arrived) {
        end_sleep();
        return false;
    }
    if (!looked_at_all) {
        return false;
    }
    for (const auto& [uplink, port] : ports_) {
        port->settle_timers();
    }
    return true;
}

void Engine::end_sleep() noexcept {
    falls_asleep_ = false;
    for (SliceCore* slice : slices_) {
        slice->set_need_kick(false);
    }
    scheduler_.set_now(Clock::now());
    scheduler_.expire();
    for (const auto& [uplink, port] : ports_) {
        port->woken();
        port->expire(now());
    }
}

Clock::time_point Engine::sleep_limit() const noexcept {
    constexpr std::chrono::milliseconds event_queue_check{10};
    Clock::time_point limit = scheduler_.deadline();
    for (const auto& [uplink, port] : ports_) {
        limit = std::min(limit, port->deadline());
    }
    limit = std::min(limit, events_.deadline());
    if (events_.waiting()) {
        limit = std::min(limit, Clock::now() + event_queue_check);
    }
    return limit;
}

} // namespace vrdma::hca::soft
