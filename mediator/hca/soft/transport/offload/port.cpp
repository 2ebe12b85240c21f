// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/transport/offload/port.h"

#include <algorithm>

#include "mediator/base/memory_cost.h"
#include "mediator/hca/soft/qp/qp_state.h"
#include "mediator/hca/soft/slice/engine.h"
#include "mediator/hca/soft/transport/offload/connection.h"
#include "mediator/hca/soft/transport/offload/datagrams.h"
#include "mediator/hca/soft/transport/offload/member.h"

namespace vrdma::hca::soft::offload {
namespace {

// The name of a piece of work at the HCA: a place, its generation, the queue, and a sequence.
constexpr std::uint64_t place_mask = 0xffffffff00000000;
constexpr std::uint64_t generation_mask = 0x00000000fffe0000;
constexpr std::uint64_t receive_mask = 0x0000000000010000;
constexpr std::uint64_t sequence_mask = 0x000000000000ffff;

constexpr std::uint16_t last_generation = 0x7fff;

} // namespace

Port::Port(Engine& engine, const std::string& name, host::SharedDevice device,
           host::Channel channel, std::uint32_t max_mtu)
    : NetworkPort{max_mtu},
      engine_{engine},
      device_{device},
      completions_{std::move(device), std::move(channel)},
      log_{"uplink " + name} {}

HardwareLimits Port::limits() const {
    const auto at_most = [](int value, auto most) {
        return static_cast<decltype(most)>(std::clamp<int>(value, 0, most));
    };
    const ibv_device_attr& attr = device_->attr();
    return {.max_mr_size = attr.max_mr_size,
            .max_sge = at_most(std::min(attr.max_sge, attr.max_sge_rd), std::uint16_t{UINT16_MAX}),
            .max_rd_atomic = at_most(std::min(attr.max_qp_rd_atom, attr.max_qp_init_rd_atom),
                                     std::uint8_t{UINT8_MAX}),
            .shares_receives = false};
}

void Port::set_link(bool up, std::uint32_t mbps) noexcept {
    up_ = up;
    mbps_ = mbps != 0 ? mbps : mbps_;
}

std::unique_ptr<NetworkMember> Port::join(std::uint64_t /*device*/) {
    return std::make_unique<Member>(*this);
}

// QP1 is the host's: its kernel answers requests to connect. A QP that was restored has a number
// that is not the HCA's, so it has no way to the network.
Result<std::unique_ptr<NetworkConnection>> Port::connect(QueuePair& qp, const QpSpec& spec) {
    if (spec.id == gsi_qpn) {
        return nullptr;
    }
    auto host = static_cast<Member&>(*qp.slice.member()).take(spec.id);
    if (spec.type == QpType::ud) {
        return host ? std::make_unique<Datagrams>(qp, *this, std::move(*host)) : nullptr;
    }
    return std::make_unique<Connection>(qp, *this, std::move(host));
}

std::uint64_t Port::connection_cost() const noexcept {
    constexpr std::uint64_t datagrams =
        std::uint64_t{Datagrams::most} * (2 * hca::max_mtu + VRDMA_UD_GRH_SIZE);
    return std::max(heap_cost<Connection>(), heap_cost<Datagrams>()) + datagrams +
           2 * vector_cost<Place>();
}

void Port::reserve(std::size_t connections) {
    free_.reserve(std::max(connections, places_.size()));
    while (places_.size() < connections) {
        free_.push_back(static_cast<std::uint32_t>(places_.size()));
        places_.push_back({});
    }
}

std::uint32_t Port::enter(Poster& poster) noexcept {
    const std::uint32_t place = free_.back(); // reserve() has made one for each QP
    free_.pop_back();
    places_[place].poster = &poster;
    return place;
}

void Port::leave(std::uint32_t place) noexcept {
    Place& left = places_[place];
    left.poster = nullptr;
    left.generation = left.generation == last_generation ? 0 : left.generation + 1;
    free_.push_back(place);
}

std::uint64_t Port::name(std::uint32_t place, bool receive, std::uint16_t sequence) const noexcept {
    return VRDMA_SET(place_mask, std::uint64_t{place}) |
           VRDMA_SET(generation_mask, std::uint64_t{places_[place].generation}) |
           VRDMA_SET(receive_mask, std::uint64_t{receive}) |
           VRDMA_SET(sequence_mask, std::uint64_t{sequence});
}

// That a line cannot be written changes nothing for guests.
void Port::complain(const char* what) noexcept {
    try {
        log_.warn("{}: {}", device_->name(), what);
    } catch (...) {
        return;
    }
}

// Work of a QP that was reset may still complete: nobody waits for it.
void Port::take(const ibv_wc& wc) noexcept {
    const std::uint64_t place = VRDMA_GET(place_mask, wc.wr_id);
    if (place >= places_.size()) {
        complain("a completion of nothing that was posted");
        return;
    }
    const Place& found = places_[place];
    if (found.poster == nullptr || found.generation != VRDMA_GET(generation_mask, wc.wr_id)) {
        return;
    }
    if (Qpn{wc.qp_num} != found.poster->number()) {
        complain("a completion of another QP");
        return;
    }
    found.poster->complete(wc, VRDMA_GET(receive_mask, wc.wr_id) != 0,
                           static_cast<std::uint16_t>(VRDMA_GET(sequence_mask, wc.wr_id)));
}

// One that looks may fail, and then leaves the list.
bool Port::look_all() noexcept {
    constexpr unsigned most = 16;
    unsigned looked = 0;
    for (; looked < most; ++looked) {
        Poster* const poster = looking.pop_front();
        if (poster == nullptr) {
            break;
        }
        poster->look();
    }
    return looked != 0;
}

bool Port::serve() noexcept {
    constexpr unsigned each = 32;
    const bool looked = look_all();
    const unsigned taken = completions_.poll(each, [this](const ibv_wc& wc) { take(wc); });
    if (completions_.broken() && !failed_) {
        fail_all();
    }
    return looked || taken != 0;
}

void Port::drain(const Completions::Share& share) noexcept {
    completions_.poll(share.cq(), completions_.depth(), [this](const ibv_wc& wc) { take(wc); });
}

// Completions that came before the CQs were armed wake nobody.
void Port::settle_timers() noexcept {
    completions_.arm();
    restless_ = serve();
}

Clock::time_point Port::deadline() const noexcept {
    return restless_ ? Clock::time_point{} : Clock::time_point::max();
}

void Port::woken() noexcept {
    restless_ = false;
    completions_.take_events();
}

void Port::tell(ibv_event_type event, Qpn qpn) noexcept {
    for (const Place& place : places_) {
        if (place.poster != nullptr && place.poster->number() == qpn) {
            return place.poster->tell(event);
        }
    }
}

void Port::fail_all() noexcept {
    failed_ = true;
    complain("does not work any more");
    for (std::size_t i = 0; i < places_.size(); ++i) {
        if (places_[i].poster != nullptr) {
            places_[i].poster->tell(IBV_EVENT_QP_FATAL);
        }
    }
}

Ack Port::send_datagram(QueuePair& qp, const Request& request, const Route& route) noexcept {
    if (qp.connection == nullptr || route.on_network == nullptr) {
        return {AckStatus::no_answer};
    }
    return static_cast<Datagrams&>(*qp.connection).send(request, route);
}

} // namespace vrdma::hca::soft::offload
