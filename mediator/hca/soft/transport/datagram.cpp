// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/transport/datagram.h"

#include <algorithm>

#include "mediator/hca/soft/memory/copy.h"
#include "mediator/hca/soft/memory/scratch_watch.h"
#include "mediator/hca/soft/qp/receive_queue.h"
#include "mediator/hca/soft/slice/engine.h"
#include "mediator/hca/soft/transport/execute.h"
#include "mediator/hca/soft/transport/grh.h"
#include "mediator/hca/soft/transport/retry.h"
#include "mediator/hca/soft/transport/sniff.h"

namespace vrdma::hca::soft {
namespace {

constexpr Ack dropped{AckStatus::no_answer};

constexpr std::uint32_t privileged_qkey = 1u << 31; // selects the QP's own Q_Key (IBA 10.2.5)

Ack drop(QueuePair& receiver, vrdma_counter why) noexcept {
    receiver.count(why);
    return dropped;
}

void finish(QueuePair& receiver, const RecvWqe& wqe, const Route& route, const Request& request,
            std::uint32_t length) noexcept {
    vrdma_cqe entry{};
    entry.ctrl = VRDMA_SET(VRDMA_CQE_OPCODE, std::uint32_t{IBV_WC_RECV}) | VRDMA_CQE_GRH;
    if (request.message.has_imm()) {
        entry.ctrl |= VRDMA_CQE_WITH_IMM;
        entry.imm = request.message.imm;
    }
    entry.byte_len = length;
    entry.src_qpn = route.from.value;
    entry.header = header_kind(route.source, route.av);
    entry.vlan = route.source.vlan;
    entry.pkey_index = receiver.attr.pkey_index;
    receiver.count(VRDMA_COUNTER_RX_MESSAGES);
    receiver.count(VRDMA_COUNTER_RX_BYTES, request.message.length);
    static_cast<void>(complete_receive(receiver, wqe, entry, request.message.solicited));
}

// Writes GRH and payload to the WQE's buffers.
Ack place(QueuePair& receiver, const RecvWqe& wqe, Grh& grh, const Request& request) noexcept {
    const SpanList& payload = request.payload;
    SpanList target{VRDMA_UD_GRH_SIZE + payload.bytes()};
    const vrdma_vendor_err error = receiver.slice.gate().open_list(
        wqe.list(), receiver.recv_pd, IBV_ACCESS_LOCAL_WRITE, 0, target);
    if (error == VRDMA_VERR_ABSENT) {
        receiver.slice.announce_page_faults();
        return {AckStatus::pages_absent};
    }
    if (error != VRDMA_VERR_NONE) {
        fail_receive(receiver, wqe, IBV_WC_LOC_PROT_ERR, error);
        return dropped;
    }
    GuestMemory& here = receiver.slice.memory();
    GuestMemory& there = request.payload_memory(here);
    const ScratchWatch watch_here{here};
    const ScratchWatch watch_there{there};
    SpanList header{grh.size()};
    header.add(grh);
    SpanCursor to{target};
    SpanCursor from_header{header};
    SpanCursor from_payload{payload};
    copy(to, from_header);
    copy(to, from_payload);
    if (watch_there.tripped() && &here != &there) {
        release(there, payload);
        return {AckStatus::payload_revoked};
    }
    if (watch_here.tripped()) {
        release(here, target);
        fail_receive(receiver, wqe, IBV_WC_LOC_PROT_ERR, VRDMA_VERR_REVOKED);
        return dropped;
    }
    return {AckStatus::ok};
}

Ack deliver(QueuePair& receiver, const Route& route, const Request& request) noexcept {
    if (request.from == nullptr) { // the slice has counted the packet already
        receiver.count_alone(VRDMA_COUNTER_RX_PACKETS);
    }
    if (receiver.type != QpType::ud || !receiver.may_receive()) {
        return drop(receiver, VRDMA_COUNTER_WRONG_STATES);
    }
    if (!share_partition(receiver.pkey(), route.pkey)) {
        return drop(receiver, VRDMA_COUNTER_BAD_PKEYS);
    }
    if (receiver.attr.qkey != route.qkey) {
        return drop(receiver, VRDMA_COUNTER_BAD_QKEYS);
    }
    RecvWqe recv;
    if (next_receive(receiver, recv) != Receive::ready) {
        return drop(receiver, VRDMA_COUNTER_DROPPED_MESSAGES);
    }
    const auto length = static_cast<std::uint32_t>(request.payload.bytes());
    if (recv.length < VRDMA_UD_GRH_SIZE + length) {            // the WQE is kept for a shorter one
        return drop(receiver, VRDMA_COUNTER_DROPPED_MESSAGES); // (IBA 9.9.3, class D)
    }
    Grh grh = make_grh(route.source, route.av, length, request.message.has_imm());
    const Ack ack = place(receiver, recv, grh, request);
    if (ack.status == AckStatus::ok) {
        finish(receiver, recv, route, request, VRDMA_UD_GRH_SIZE + length);
    } else {
        receiver.count(VRDMA_COUNTER_DROPPED_MESSAGES);
    }
    return ack;
}

// For a slice that is frozen, paced, or has a sniffer. Returns the answer if the datagram goes no
// further.
std::optional<Ack> receive_specially(SliceCore& slice, const Route& route,
                                     const Request& request) noexcept {
    if (slice.sniffed()) {
        sniff_received_datagram(slice, route, request);
    }
    if (!slice.frozen()) {
        return std::nullopt;
    }
    if (is_multicast(route.target.gid)) {
        return dropped;
    }
    return answer_of_frozen(slice, route.to == gsi_qpn ? gsi_rest : unreliable_rest);
}

} // namespace

std::optional<Route> route_of(const QueuePair& qp, const SendWqe& wqe,
                              const vrdma_av& av) noexcept {
    const GidKey* source = qp.slice.gid(av.sgid_index);
    if (source == nullptr) {
        return std::nullopt;
    }
    Route route;
    route.type = QpType::ud;
    route.source = *source;
    route.target.type = source->type;
    route.target.vlan = source->vlan;
    std::copy(std::begin(av.dgid), std::end(av.dgid), route.target.gid.begin());
    route.from = qp.id;
    route.to = wqe.dest_qpn;
    route.pkey = qp.pkey();
    route.qkey = (wqe.qkey & privileged_qkey) != 0 ? qp.attr.qkey : wqe.qkey;
    route.av = av;
    if (const AddressHandle* const ah = wqe.has_av ? nullptr : qp.slice.ah(wqe.ah)) {
        route.on_network = ah->on_network.get();
    }
    return route;
}

Ack receive_datagram(SliceCore& slice, const Route& route, const Request& request) noexcept {
    QueuePair* const receiver = slice.qp(route.to);
    if (receiver == nullptr) {
        slice.count(VRDMA_COUNTER_UNKNOWN_QPS, slice.frozen() ? 0 : 1);
        return dropped;
    }
    if (slice.is_special()) {
        if (const auto answer = receive_specially(slice, route, request)) {
            return *answer;
        }
    }
    return deliver(*receiver, route, request);
}

Ack receive_multicast(SliceCore& slice, const Route& route, const Request& request) noexcept {
    if (route.to != Qpn{VRDMA_MULTICAST_QPN} || !slice.is_in_vlan(route.source.vlan) ||
        (slice.is_special() && receive_specially(slice, route, request))) {
        return dropped;
    }
    Ack result{AckStatus::ok};
    for (QueuePair* receiver : slice.group(route.target.gid)) {
        const bool own = request.from == &slice && receiver->id == route.from;
        if (own && receiver->blocks_own_multicast) {
            continue;
        }
        const Ack ack = deliver(*receiver, route, request);
        if (ack.status == AckStatus::payload_revoked) {
            result = ack;
        }
    }
    return result;
}

} // namespace vrdma::hca::soft
