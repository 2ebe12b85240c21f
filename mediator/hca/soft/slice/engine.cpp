// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/slice/engine.h"

#include <algorithm>

#include "mediator/hca/soft/slice/slice_core.h"

namespace vrdma::hca::soft {

Engine::Engine(const Config& config, std::function<void()> wake)
    : config_{config}, scheduler_{config_}, cross_queue_{std::move(wake)} {}

void Engine::add(SliceCore& slice) {
    slices_.reserve(slices_.size() + 1); // if memory is short, the slice is not added anywhere
    doorbells_.reserve(slices_.size() + 1);
    scheduler_.add(slice.run_queue());
    slices_.push_back(&slice);
}

void Engine::remove(SliceCore& slice) {
    set_sniffer(slice, nullptr);
    scheduler_.remove(slice.run_queue());
    cross_queue_.forget(slice.run_queue());
    if (slice.port() != nullptr) {
        slice.port()->leave(*slice.member());
    }
    slices_.erase(std::find(slices_.begin(), slices_.end(), &slice));
}

void Engine::set_sniffer(SliceCore& slice, sniffer::Ring* ring) noexcept {
    sniffers_ -= slice.sniffed() ? 1 : 0;
    slice.set_sniffer(ring);
    sniffers_ += slice.sniffed() ? 1 : 0;
}

void Engine::add_port(std::string uplink, std::unique_ptr<NetworkPort> port) {
    ports_.emplace_back(std::move(uplink), std::move(port));
}

std::unique_ptr<NetworkPort> Engine::remove_port(const std::string& uplink) noexcept {
    const auto found = std::ranges::find(ports_, uplink, &Ports::value_type::first);
    auto port = std::move(found->second);
    ports_.erase(found);
    return port;
}

NetworkPort* Engine::find_port(const std::string& uplink) const noexcept {
    const auto found = std::ranges::find(ports_, uplink, &Ports::value_type::first);
    return found != ports_.end() ? found->second.get() : nullptr;
}

void Engine::set_link(const std::string& uplink, bool up, std::uint32_t mbps) noexcept {
    NetworkPort* const port = find_port(uplink);
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

} // namespace vrdma::hca::soft
