// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/transport/roce/datagram.h"

#include "mediator/hca/soft/common/hole_count.h"
#include "mediator/hca/soft/memory/guarded_copy.h"
#include "mediator/hca/soft/slice/engine.h"
#include "mediator/hca/soft/transport/datagram.h"
#include "mediator/hca/soft/transport/gsi.h"
#include "mediator/hca/soft/transport/headers.h"
#include "mediator/hca/soft/transport/roce/path.h"

namespace vrdma::hca::soft::roce {
namespace {

Message message_of(const wire::Packet& packet) noexcept {
    Message message;
    const bool imm =
        (packet.headers.opcode & VRDMA_ROCE_OPERATION) == VRDMA_ROCE_SEND_ONLY_WITH_IMM;
    message.opcode = imm ? VRDMA_SQ_SEND_WITH_IMM : VRDMA_SQ_SEND;
    message.solicited = packet.headers.solicited;
    message.imm = packet.headers.imm;
    message.length = packet.payload.size();
    return message;
}

// Delivers the datagram to the members that have not had it yet. Returns false if the port's turn
// ends before.
bool receive_by_group(Port& port, const Route& route, const Request& request,
                      std::uint64_t& served_join) noexcept {
    const RoutingTable& routes = port.engine().routes();
    HoleCount holes;
    while (const auto* const member = routes.next_member(route.target.gid, served_join)) {
        served_join = member->join;
        SliceCore& slice = *member->slice;
        if (slice.port() == &port) {
            const std::size_t copies = slice.group(route.target.gid).size();
            slice.count(VRDMA_COUNTER_RX_PACKETS);
            slice.account().bill_packet(0);
            slice.account().bill(request.payload.bytes() * copies, copies);
            port.spend(request.payload.bytes() * copies, copies);
            static_cast<void>(receive_multicast(slice, route, request));
            port.bill_holes(slice, holes);
        }
        if (!port.in_turn()) {
            return false;
        }
    }
    return true;
}

SliceCore* find_receiver(const Port& port, const Route& route, const Request& request) noexcept {
    const RoutingTable& routes = port.engine().routes();
    SliceCore* const to = route.to == gsi_qpn ? find_gsi(routes, route.target, request)
                                              : routes.find(route.target, route.to, nullptr);
    return to != nullptr && to->port() == &port ? to : nullptr;
}

} // namespace

SliceCore* find_receiver(const Port& port, const wire::Packet& packet) noexcept {
    const Message message = message_of(packet);
    const SpanList payload = SpanList::reading(packet.payload);
    return find_receiver(port, route_of(packet, QpType::ud), {message, nullptr, payload, 0});
}

Ack send_datagram(Port& port, QueuePair& qp, const Request& request, const Route& route) noexcept {
    wire::Path path = make_path(qp.slice, route, route.av);
    if (!port.find_target(qp.slice, path)) {
        return {AckStatus::not_now};
    }
    const wire::Headers headers = headers_of_datagram(request.message, route);
    const auto draft = port.draft(path, headers.opcode, request.payload.bytes());
    if (!draft) {
        return {AckStatus::not_now};
    }
    SpanList frame{draft->payload.size()};
    if (!draft->payload.empty()) {
        frame.add(draft->payload);
    }
    GuestMemory& memory = qp.slice.memory();
    SpanCursor to{frame};
    SpanCursor from{request.payload};
    if (!guarded_copy(memory, request.payload, to, from)) {
        return {AckStatus::payload_revoked};
    }
    port.send(qp.slice, *draft, path, headers);
    qp.count(VRDMA_COUNTER_TX_PACKETS);
    const std::size_t copies = port.copies(path.target_mac);
    // The turn is charged for the first copy.
    qp.slice.account().charge(request.payload.bytes() * (copies - 1),
                              Account::packet_operations * copies);
    return {AckStatus::ok};
}

bool receive_datagram(Port& port, const wire::Packet& packet, std::uint64_t& served_join) noexcept {
    const Route route = route_of(packet, QpType::ud);
    const Message message = message_of(packet);
    const SpanList payload = SpanList::reading(packet.payload);
    const Request request{message, nullptr, payload, 0};
    if (is_multicast(route.target.gid)) {
        if (port.is_addressed_to_group(packet)) {
            return receive_by_group(port, route, request, served_join);
        }
        port.drop(packet, VRDMA_COUNTER_UNKNOWN_QPS);
        return true;
    }
    SliceCore* const to = find_receiver(port, route, request);
    if (to != nullptr && port.is_addressed(*to, packet)) {
        to->count(VRDMA_COUNTER_RX_PACKETS);
        to->account().bill_packet(packet.payload.size());
        HoleCount holes;
        static_cast<void>(soft::receive_datagram(*to, route, request));
        port.bill_holes(*to, holes);
    } else {
        port.drop(packet, VRDMA_COUNTER_UNKNOWN_QPS);
    }
    return true;
}

} // namespace vrdma::hca::soft::roce
