// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/roce/datagram.h"

#include "mediator/hca/soft/copy.h"
#include "mediator/hca/soft/datagram.h"
#include "mediator/hca/soft/engine.h"
#include "mediator/hca/soft/gsi.h"
#include "mediator/hca/soft/roce/opcode.h"
#include "mediator/hca/soft/roce/path.h"
#include "mediator/hca/soft/scratch_watch.h"

namespace vrdma::hca::soft::roce {
namespace {

wire::Headers headers_of(const Request& request, const Route& route) noexcept {
    const Message& message = request.message;
    wire::Headers headers;
    headers.opcode = request_opcode(QpType::ud, message.opcode, true, true);
    headers.solicited = message.solicited;
    headers.target_qpn = route.to.value;
    headers.imm = message.imm;
    headers.qkey = route.qkey;
    headers.source_qpn = route.from.value;
    return headers;
}

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

void receive_by_group(Port& port, const Route& route, const Request& request) noexcept {
    const Fabric& fabric = port.engine().fabric();
    std::uint64_t join = 0;
    while (const auto* const member = fabric.next_member(route.target.gid, join)) {
        join = member->join;
        if (member->slice->port() == &port) {
            member->slice->count(VRDMA_COUNTER_RX_PACKETS);
            static_cast<void>(receive_multicast(*member->slice, route, request));
        }
    }
}

} // namespace

Ack send_datagram(Port& port, QueuePair& qp, const Request& request, const Route& route) noexcept {
    wire::Path path = make_path(qp.slice, route, route.av);
    path.source_port = flow_port(route.av, route.from, route.to);
    if (!port.find_target(path)) {
        return {AckStatus::not_now};
    }
    const wire::Headers headers = headers_of(request, route);
    const auto draft = port.draft(path, headers.opcode, request.payload.bytes());
    if (!draft) {
        return {AckStatus::not_now};
    }
    SpanList frame{draft->payload.size()};
    if (!draft->payload.empty()) {
        frame.add(draft->payload);
    }
    GuestMemory& memory = qp.slice.memory();
    const ScratchWatch watch{memory};
    SpanCursor to{frame};
    SpanCursor from{request.payload};
    copy(to, from);
    if (watch.tripped()) {
        release(memory, request.payload);
        return {AckStatus::payload_revoked};
    }
    port.send(*draft, path, headers);
    qp.count(VRDMA_COUNTER_TX_PACKETS);
    return {AckStatus::ok};
}

void receive_datagram(Port& port, const wire::Packet& packet) noexcept {
    const Route route = route_of(packet, QpType::ud);
    const Message message = message_of(packet);
    const SpanList payload = SpanList::reading(packet.payload);
    const Request request{message, nullptr, payload, 0};
    if (is_multicast(route.target.gid)) {
        return receive_by_group(port, route, request);
    }
    const Fabric& fabric = port.engine().fabric();
    SliceCore* const to = route.to == gsi_qpn ? find_gsi(fabric, route.target, request)
                                              : fabric.find(route.target, route.to, nullptr);
    if (to != nullptr && to->port() == &port) {
        to->count(VRDMA_COUNTER_RX_PACKETS);
        static_cast<void>(soft::receive_datagram(*to, route, request));
    } else {
        port.drop(packet, VRDMA_COUNTER_UNKNOWN_QPS);
    }
}

} // namespace vrdma::hca::soft::roce
