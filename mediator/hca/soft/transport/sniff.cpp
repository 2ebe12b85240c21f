// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/transport/sniff.h"

#include <algorithm>
#include <utility>

#include "mediator/hca/soft/memory/guarded_copy.h"
#include "mediator/hca/soft/slice/slice_core.h"
#include "mediator/hca/soft/transport/headers.h"
#include "mediator/hca/soft/transport/path.h"
#include "mediator/hca/soft/transport/peer.h"
#include "mediator/sniffer/ring.h"

namespace vrdma::hca::soft {
namespace {

using sniffer::Direction;

constexpr std::uint32_t psn_mask = 0xffffff;

// Copies the beginning of the payload. What is absent becomes zeros.
void copy_payload(const Request& request, std::span<std::byte> to) noexcept {
    const SpanList target = SpanList::of(to);
    SpanCursor target_cursor{target};
    SpanCursor payload{request.payload};
    GuestMemory& memory = request.from->memory();
    if (!guarded_copy(memory, request.payload, target_cursor, payload)) {
        std::ranges::fill(to, std::byte{});
    }
}

struct Packet {
    const wire::Path& path;
    const wire::Headers& headers;
    std::uint64_t payload_bytes;
};

// The ring has admitted it. The packet gets the beginning of its payload only, and is valid with
// that: readers do not decode a packet that was cut off.
void record(sniffer::Ring& ring, Direction direction, const Packet& packet,
            const Request& request) noexcept {
    const std::size_t header = wire::header_size(packet.path, packet.headers.opcode);
    const auto size_with = [&](std::uint64_t payload_bytes) {
        return header + payload_bytes + wire::trailer_size(payload_bytes);
    };
    const std::uint64_t at_hand = std::min(packet.payload_bytes, request.payload.bytes());
    const auto captured = std::min<std::uint64_t>(at_hand, ring.payload_limit());
    const std::span room = ring.reserve(size_with(captured));
    if (captured != 0) {
        copy_payload(request, room.subspan(header, captured));
    }
    wire::finish(room, packet.path, packet.headers, captured);
    ring.commit(size_with(packet.payload_bytes), direction);
}

// The sender tries again, as if nothing had happened.
bool was_postponed(Ack ack) noexcept {
    return ack.status == AckStatus::pages_absent || ack.status == AckStatus::not_now ||
           ack.status == AckStatus::resting;
}

std::optional<std::uint8_t> negative_syndrome(Ack ack) noexcept {
    switch (ack.status) {
        case AckStatus::receiver_not_ready:
            return syndrome(VRDMA_SYNDROME_RNR_NAK, ack.rnr_timer);
        case AckStatus::invalid_request:
            return syndrome(VRDMA_SYNDROME_NAK, VRDMA_NAK_INVALID_REQUEST);
        case AckStatus::access_error:
            return syndrome(VRDMA_SYNDROME_NAK, VRDMA_NAK_REMOTE_ACCESS);
        case AckStatus::operation_error:
            return syndrome(VRDMA_SYNDROME_NAK, VRDMA_NAK_REMOTE_OPERATION);
        default:
            return std::nullopt;
    }
}

std::uint8_t response_to(vrdma_sq_opcode opcode) noexcept {
    return opcode == VRDMA_SQ_RDMA_READ || opcode == VRDMA_SQ_ATOMIC_WRITE
               ? VRDMA_ROCE_READ_RESPONSE_ONLY
               : VRDMA_ROCE_ATOMIC_ACKNOWLEDGE;
}

// The value that an atomic operation has fetched.
std::uint64_t fetched_word(const Request& request) noexcept {
    std::uint64_t word = 0;
    copy_payload(request, std::as_writable_bytes(std::span{&word, 1}));
    return word;
}

// The packets of a connected QP's message, as one side sees them.
struct Exchange {
    const QueuePair& qp;
    const Request& request;
    sniffer::Ring& ring;
    wire::Path path; // from the requester to the responder
    Qpn requester;
    Qpn responder;
    Direction direction; // of requests
    std::uint32_t psn;   // of requests and answers
};

// Of a frame that the ring has just been asked to admit.
std::uint32_t psn_of(const sniffer::Ring& ring) noexcept {
    return static_cast<std::uint32_t>(ring.frames() & psn_mask);
}

wire::Path reversed(wire::Path path) noexcept {
    std::swap(path.source, path.target);
    std::swap(path.source_mac, path.target_mac);
    return path;
}

void record_request(const Exchange& exchange) noexcept {
    const Message& message = exchange.request.message;
    wire::Headers headers = headers_of(exchange.qp.type, message, 0, true, true);
    headers.ack_request = exchange.qp.reliable();
    headers.pkey = exchange.qp.pkey();
    headers.target_qpn = exchange.responder.value;
    headers.psn = exchange.psn;
    record(exchange.ring, exchange.direction,
           {exchange.path, headers, message.is_fetch() ? 0 : message.length}, exchange.request);
}

void record_answer(const Exchange& exchange, std::uint8_t operation, std::uint8_t aeth) noexcept {
    const wire::Path back = reversed(exchange.path);
    wire::Headers headers;
    headers.opcode = transport_of(exchange.qp.type) | operation;
    headers.pkey = exchange.qp.pkey();
    headers.target_qpn = exchange.requester.value;
    headers.psn = exchange.psn;
    headers.syndrome = aeth;
    const Message& message = exchange.request.message;
    if (operation == VRDMA_ROCE_ATOMIC_ACKNOWLEDGE) {
        headers.original = fetched_word(exchange.request);
    }
    const bool carries = operation == VRDMA_ROCE_READ_RESPONSE_ONLY && message.is_fetch();
    record(exchange.ring,
           exchange.direction == Direction::sent ? Direction::received : Direction::sent,
           {back, headers, carries ? message.length : 0}, exchange.request);
}

// A message that is executed in several pieces is recorded with its first one.
void record_exchange(const Exchange& exchange, Ack ack) noexcept {
    const Request& request = exchange.request;
    if (request.first()) {
        record_request(exchange);
    }
    if (const auto negative = negative_syndrome(ack)) {
        if (exchange.ring.admit()) {
            record_answer(exchange, VRDMA_ROCE_ACKNOWLEDGE, *negative);
        }
    } else if (ack.status == AckStatus::ok && request.first() &&
               is_answered(request.message.opcode) && exchange.ring.admit()) {
        record_answer(exchange, response_to(request.message.opcode),
                      syndrome(VRDMA_SYNDROME_ACK, VRDMA_SYNDROME_NO_CREDITS));
    }
}

// Whether the piece has a packet that the ring admits. It is asked first, as most messages of a
// flood are not recorded.
bool is_recorded(sniffer::Ring& ring, const Request& request, Ack ack) noexcept {
    return !was_postponed(ack) && (!request.first() || ring.admit());
}

// Of a connected QP. `direction` is that of the request.
void record_message(const QueuePair& qp, const Request& request, Ack ack,
                    Direction direction) noexcept {
    sniffer::Ring& ring = *qp.slice.sniffer();
    if (!is_recorded(ring, request, ack)) {
        return;
    }
    const auto route = route_of(qp);
    if (!route) {
        return;
    }
    const wire::Path path = path_of(qp.slice, *route, qp.attr.av);
    const Exchange exchange =
        direction == Direction::sent
            ? Exchange{qp, request, ring, path, qp.id, route->to, direction, psn_of(ring)}
            : Exchange{qp,        request, ring,      reversed(path),
                       route->to, qp.id,   direction, psn_of(ring)};
    record_exchange(exchange, ack);
}

void record_datagram(SliceCore& slice, const Route& route, const Request& request,
                     Direction direction) noexcept {
    sniffer::Ring& ring = *slice.sniffer();
    if (!ring.admit()) {
        return;
    }
    wire::Headers headers = headers_of_datagram(request.message, route);
    headers.psn = psn_of(ring);
    record(ring, direction,
           {path_of(*request.from, route, route.av), headers, request.payload.bytes()}, request);
}

// Whether the request has come from another slice of this host.
bool is_from_another(const Request& request, const SliceCore& slice) noexcept {
    return request.from != nullptr && request.from != &slice;
}

} // namespace

void sniff_sent(const QueuePair& qp, const Request& request, Ack ack) noexcept {
    record_message(qp, request, ack, Direction::sent);
}

void sniff_received(const QueuePair& qp, const Request& request, Ack ack) noexcept {
    if (is_from_another(request, qp.slice)) {
        record_message(qp, request, ack, Direction::received);
    }
}

void sniff_sent_datagram(SliceCore& slice, const Route& route, const Request& request,
                         Ack ack) noexcept {
    if (!was_postponed(ack)) {
        record_datagram(slice, route, request, Direction::sent);
    }
}

void sniff_received_datagram(SliceCore& slice, const Route& route,
                             const Request& request) noexcept {
    if (is_from_another(request, slice)) {
        record_datagram(slice, route, request, Direction::received);
    }
}

} // namespace vrdma::hca::soft
