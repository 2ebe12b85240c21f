// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/transport/offload/datagrams.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "mediator/hca/soft/common/hole_count.h"
#include "mediator/hca/soft/memory/guarded_copy.h"
#include "mediator/hca/soft/qp/qp_state.h"
#include "mediator/hca/soft/slice/engine.h"
#include "mediator/hca/soft/transport/datagram.h"
#include "mediator/hca/soft/transport/offload/member.h"

namespace vrdma::hca::soft::offload {
namespace {

constexpr std::size_t each_in = VRDMA_UD_GRH_SIZE + hca::max_mtu;

// The addresses in the 40 bytes before a datagram: a GRH or IPv6 header, or an IPv4 header in the
// last 20 of them.
struct Addresses {
    Gid source{};
    Gid target{};
    std::uint8_t traffic_class = 0;
    std::uint8_t hop_limit = 0;
};

Gid mapped(const std::byte* ipv4) noexcept {
    Gid gid{};
    std::ranges::copy(ipv4_prefix, gid.begin());
    std::memcpy(gid.data() + ipv4_prefix.size(), ipv4, gid.size() - ipv4_prefix.size());
    return gid;
}

Addresses addresses_in(std::span<const std::byte> header) noexcept {
    constexpr std::size_t ipv4_at = 20;
    constexpr std::byte ipv4_begin{0x45}; // version 4, 5 words
    constexpr unsigned nibble = 4;
    Addresses addresses;
    const std::byte* const ipv4 = header.data() + ipv4_at;
    if (std::to_integer<unsigned>(header[0]) >> nibble != 6 && ipv4[0] == ipv4_begin) {
        addresses.traffic_class = std::to_integer<std::uint8_t>(ipv4[1]);
        addresses.hop_limit = std::to_integer<std::uint8_t>(ipv4[8]);
        addresses.source = mapped(ipv4 + 12);
        addresses.target = mapped(ipv4 + 16);
        return addresses;
    }
    addresses.traffic_class =
        static_cast<std::uint8_t>(std::to_integer<unsigned>(header[0]) << nibble |
                                  std::to_integer<unsigned>(header[1]) >> nibble);
    addresses.hop_limit = std::to_integer<std::uint8_t>(header[7]);
    std::memcpy(addresses.source.data(), header.data() + 8, addresses.source.size());
    std::memcpy(addresses.target.data(), header.data() + 24, addresses.target.size());
    return addresses;
}

} // namespace

Datagrams::Datagrams(QueuePair& qp, Port& port, HostQp host)
    : qp_{qp}, port_{port}, host_{std::move(host)} {}

std::span<std::byte> Datagrams::outgoing(unsigned sequence) const noexcept {
    return {host_.buffer.at(sequence % host_.sends * std::size_t{hca::max_mtu}), hca::max_mtu};
}

std::span<std::byte> Datagrams::incoming(unsigned sequence) const noexcept {
    return {host_.buffer.at(std::size_t{host_.sends} * hca::max_mtu +
                            sequence % host_.receives * each_in),
            each_in};
}

// The HCA's QP does what the guest's does up to RTS, and then stays there.
Result<> Datagrams::prepare(const vrdma_qp_attr& attr) {
    if ((attr.attr_mask & IBV_QP_STATE) != 0 && attr.state > IBV_QPS_RTS) {
        return {};
    }
    if ((attr.attr_mask & IBV_QP_STATE) != 0 && attr.state == IBV_QPS_RESET) {
        return {};
    }
    HostAttr changed = host_attr_of(qp_.slice, attr, 0);
    return changed.mask != 0 ? host_.modify(changed.attr, changed.mask) : Result<>{};
}

void Datagrams::start_receiving() noexcept {
    if (std::exchange(running_, true)) {
        return;
    }
    place_ = port_.enter(*this);
    sent_ = completed_ = 0;
    for (unsigned i = 0; i < host_.receives; ++i) {
        post_receive(i);
    }
}

void Datagrams::stop() noexcept {
    if (!host_.reset()) {
        port_.complain("a QP cannot be reset");
    }
    if (std::exchange(running_, false)) {
        port_.leave(place_);
        port_.drain(host_.completions);
    }
}

// Datagrams may be lost, but a QP with another number would never get one again.
void Datagrams::let_go() noexcept {
    lost_ = lost_ || running_;
    stop();
}

void Datagrams::resume() noexcept {
    if (std::exchange(lost_, false)) {
        enter_error_fatally(qp_);
    }
}

void Datagrams::tell(ibv_event_type event) noexcept {
    if (event == IBV_EVENT_QP_FATAL) {
        enter_error_fatally(qp_);
    }
}

Ack Datagrams::send(const Request& request, const Route& route) noexcept {
    if (!running_ || host_.sends == static_cast<std::uint16_t>(sent_ - completed_)) {
        return {running_ ? AckStatus::not_now : AckStatus::no_answer};
    }
    const auto place = outgoing(sent_).first(request.payload.bytes());
    SpanList frame = SpanList::of(place);
    SpanCursor to{frame};
    SpanCursor from{request.payload};
    if (!guarded_copy(qp_.slice.memory(), request.payload, to, from)) {
        return {AckStatus::payload_revoked};
    }
    ibv_sge sge{reinterpret_cast<std::uintptr_t>(place.data()),
                static_cast<std::uint32_t>(place.size()), host_.buffer.lkey()};
    ibv_send_wr wr{};
    wr.wr_id = port_.name(place_, false, sent_);
    wr.sg_list = &sge;
    wr.num_sge = place.empty() ? 0 : 1;
    wr.opcode = request.message.has_imm() ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND;
    wr.imm_data = request.message.imm;
    wr.send_flags = send_flags_of(request.message);
    wr.wr.ud = {.ah = static_cast<const Target*>(route.on_network)->ah(),
                .remote_qpn = route.to.value,
                .remote_qkey = route.qkey};
    ibv_send_wr* bad = nullptr;
    if (ibv_post_send(host_.qp.get(), &wr, &bad) != 0) {
        return {AckStatus::no_answer};
    }
    ++sent_;
    qp_.count(VRDMA_COUNTER_TX_PACKETS);
    return {AckStatus::ok};
}

bool Datagrams::post_receive(unsigned sequence) noexcept {
    const auto place = incoming(sequence);
    ibv_sge sge{reinterpret_cast<std::uintptr_t>(place.data()),
                static_cast<std::uint32_t>(place.size()), host_.buffer.lkey()};
    ibv_recv_wr wr{};
    wr.wr_id = port_.name(place_, true, static_cast<std::uint16_t>(sequence));
    wr.sg_list = &sge;
    wr.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    return ibv_post_recv(host_.qp.get(), &wr, &bad) == 0;
}

void Datagrams::complete(const ibv_wc& wc, bool receive, std::uint16_t sequence) noexcept {
    if (receive) {
        return completed_receive(wc, sequence);
    }
    if (sent_ == completed_ || sequence != completed_) {
        port_.complain("a completion out of order");
        return enter_error_fatally(qp_);
    }
    ++completed_; // the guest has its completion
}

// The guest's WQE for it, if there is one, is found now.
void Datagrams::completed_receive(const ibv_wc& wc, unsigned sequence) noexcept {
    if (wc.status != IBV_WC_SUCCESS) {
        return;
    }
    const auto place = incoming(sequence);
    if (sequence < host_.receives && wc.byte_len >= VRDMA_UD_GRH_SIZE &&
        wc.byte_len <= place.size()) {
        deliver(place.first(VRDMA_UD_GRH_SIZE),
                place.subspan(VRDMA_UD_GRH_SIZE, wc.byte_len - VRDMA_UD_GRH_SIZE), wc);
    }
    if (running_ && sequence < host_.receives && !post_receive(sequence)) {
        enter_error_fatally(qp_);
    }
}

void Datagrams::deliver(std::span<const std::byte> header, std::span<const std::byte> payload,
                        const ibv_wc& wc) noexcept {
    const Addresses addresses = addresses_in(header);
    Route route;
    route.type = QpType::ud;
    route.source = {addresses.source, VRDMA_GID_ROCE_V2, 0};
    route.target = {addresses.target, VRDMA_GID_ROCE_V2, 0};
    route.from = Qpn{wc.src_qp};
    route.to = qp_.id;
    route.pkey = qp_.pkey();
    route.qkey = qp_.attr.qkey; // which the HCA has checked
    route.av.traffic_class = addresses.traffic_class;
    route.av.hop_limit = addresses.hop_limit;
    std::ranges::copy(addresses.target, route.av.dgid);
    Message message;
    const bool imm = (wc.wc_flags & IBV_WC_WITH_IMM) != 0;
    message.opcode = imm ? VRDMA_SQ_SEND_WITH_IMM : VRDMA_SQ_SEND;
    message.imm = imm ? wc.imm_data : 0;
    message.solicited = true; // a completion does not tell
    message.length = payload.size();
    const SpanList bytes = SpanList::reading(payload);
    SliceCore& slice = qp_.slice;
    slice.count(VRDMA_COUNTER_RX_PACKETS);
    slice.account().bill_packet(payload.size());
    HoleCount holes;
    static_cast<void>(receive_datagram(slice, route, {message, nullptr, bytes, 0}));
    if (holes.any()) {
        slice.account().bill_holes(holes.take());
    }
}

} // namespace vrdma::hca::soft::offload
