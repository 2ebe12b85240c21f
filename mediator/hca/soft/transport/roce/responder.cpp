// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/transport/roce/responder.h"

#include <algorithm>

#include "mediator/hca/soft/slice/engine.h"
#include "mediator/hca/soft/transport/execute.h"
#include "mediator/hca/soft/transport/headers.h"
#include "mediator/hca/soft/transport/retry.h"
#include "mediator/hca/soft/transport/roce/port.h"
#include "vrdma/roce.h"

namespace vrdma::hca::soft::roce {
namespace {

// The number of packets that one QP may answer with before the others have their turn.
constexpr unsigned turn_answers = 8;
// The timer of the RNR NAK for a page that this side's driver is asked for: 0.64 ms, IBA table 46.
constexpr std::uint8_t pages_timer = 12;

// The first fetch that is not completely answered.
template <typename In>
auto next_fetch(In& in) noexcept -> decltype(&in.fetches[0]) {
    for (std::size_t i = 0; i < in.fetches.size(); ++i) {
        if (!in.fetches[i].is_answered()) {
            return &in.fetches[i];
        }
    }
    return nullptr;
}

// The fetch that the peer requests again, from one of its packets on.
template <typename In>
auto find_fetch(In& in, const RequestPacket& request, Psn psn) noexcept
    -> decltype(&in.fetches[0]) {
    for (std::size_t i = 0; i < in.fetches.size(); ++i) {
        auto& fetch = in.fetches[i];
        if (fetch.message.opcode == request.opcode && distance(fetch.first, psn) >= 0 &&
            distance(psn, fetch.last) >= 0) {
            return &fetch;
        }
    }
    return nullptr;
}

// A QP with an SRQ reports no credits, because other QPs may take the receives.
std::uint8_t positive(Connection& c) noexcept {
    const QueuePair& qp = c.qp;
    const bool shared = qp.srq != nullptr || qp.type == QpType::xrc_recv;
    return syndrome(VRDMA_SYNDROME_ACK,
                    shared ? VRDMA_SYNDROME_NO_CREDITS : c.in.credits.code(qp.rq));
}

wire::Headers answer_headers(const Connection& c, std::uint8_t operation, Psn psn,
                             std::uint8_t aeth) noexcept {
    wire::Headers headers;
    headers.opcode = transport_of(c.qp.type) | operation;
    headers.pkey = c.qp.pkey();
    headers.target_qpn = c.qp.attr.dest_qpn;
    headers.psn = psn;
    headers.syndrome = aeth;
    headers.msn = c.in.msn;
    return headers;
}

void send(Connection& c, const Draft& draft, const wire::Headers& headers) noexcept {
    c.port.send(c.qp.slice, draft, c.path, headers);
    c.qp.count(VRDMA_COUNTER_TX_PACKETS);
    c.qp.slice.account().bill_packet(draft.payload.size());
}

// Returns false if there is no room: then the peer will ask again.
bool send_acknowledge(Connection& c, Psn psn, std::uint8_t aeth) noexcept {
    const wire::Headers headers = answer_headers(c, VRDMA_ROCE_ACKNOWLEDGE, psn, aeth);
    const auto draft = c.port.draft(c.path, headers.opcode, 0);
    if (draft) {
        send(c, *draft, headers);
    }
    return draft.has_value();
}

vrdma_counter counter_of_nak(vrdma_nak why) noexcept {
    switch (why) {
        case VRDMA_NAK_PSN_SEQUENCE:
            return VRDMA_COUNTER_SENT_SEQUENCE_NAKS;
        case VRDMA_NAK_REMOTE_ACCESS:
            return VRDMA_COUNTER_SENT_ACCESS_NAKS;
        case VRDMA_NAK_REMOTE_OPERATION:
            return VRDMA_COUNTER_SENT_OP_NAKS;
        default:
            return VRDMA_COUNTER_SENT_INVALID_NAKS;
    }
}

Nak nak_of(Psn psn, vrdma_nak why) noexcept {
    return {psn, syndrome(VRDMA_SYNDROME_NAK, why), counter_of_nak(why)};
}

Nak rnr_nak_of(Psn psn, std::uint8_t timer) noexcept {
    return {psn, syndrome(VRDMA_SYNDROME_RNR_NAK, timer), VRDMA_COUNTER_SENT_RNR_NAKS};
}

bool send_nak(Connection& c, const Nak& nak) noexcept {
    c.in.told_gap = send_acknowledge(c, nak.psn, nak.syndrome);
    c.qp.count(nak.counter, c.in.told_gap ? 1 : 0);
    return c.in.told_gap;
}

// A NAK also acknowledges everything before it, so the answers to earlier requests are sent first
// (IBA 9.7.5.1.1).
void send_nak_in_turn(Connection& c, const Nak& nak) noexcept {
    if (!has_answers(c)) {
        send_nak(c, nak);
        return;
    }
    c.in.nak = nak;
    c.in.told_gap = true;
    c.port.answer_soon(c);
}

// The packets of the peer's QP show that it broke a rule (IBA 9.9.3, class C).
void refuse_sequence(Connection& c, Psn psn) noexcept {
    refuse_request(c.qp);
    c.in.open = false;
    if (c.qp.reliable()) {
        send_nak_in_turn(c, nak_of(psn, VRDMA_NAK_INVALID_REQUEST));
    }
}

void accepted(Connection& c, std::uint32_t packets, bool last) noexcept {
    Inbound& in = c.in;
    in.expected = add(in.expected, packets);
    in.msn = add(in.msn, last ? 1 : 0);
    in.told_gap = false;
    in.frozen = false;
    in.nak.reset();
}

void acknowledge_soon(Connection& c) noexcept {
    if (c.qp.reliable()) {
        c.in.ack_due = true;
        c.port.answer_soon(c);
    }
}

// The NAK for a request that was not executed, if the peer gets one.
std::optional<Nak> nak_of(Psn psn, Ack ack) noexcept {
    switch (ack.status) {
        case AckStatus::ok:
        case AckStatus::no_answer:
        case AckStatus::no_such_qp:
        case AckStatus::bad_response:
        case AckStatus::payload_revoked:
        case AckStatus::resting: // for peers on this host only
            break;
        case AckStatus::receiver_not_ready:
            return rnr_nak_of(psn, ack.rnr_timer);
        case AckStatus::pages_absent:
        case AckStatus::not_now:
            return rnr_nak_of(psn, pages_timer);
        case AckStatus::invalid_request:
            return nak_of(psn, VRDMA_NAK_INVALID_REQUEST);
        case AckStatus::access_error:
            return nak_of(psn, VRDMA_NAK_REMOTE_ACCESS);
        case AckStatus::operation_error:
            return nak_of(psn, VRDMA_NAK_REMOTE_OPERATION);
    }
    return std::nullopt;
}

// Whether the message ends. A refused message ends; a message that comes too early continues.
bool ends_message(Ack ack) noexcept {
    return ack.status == AckStatus::invalid_request || ack.status == AckStatus::access_error ||
           ack.status == AckStatus::operation_error;
}

// The packet with the expected PSN was not executed.
void conclude(Connection& c, Psn psn, Ack ack) noexcept {
    c.in.open = c.in.open && !ends_message(ack);
    const auto nak = nak_of(psn, ack);
    if (nak && c.qp.reliable()) {
        send_nak_in_turn(c, *nak);
    }
}

Message message_of(const wire::Headers& headers, vrdma_sq_opcode opcode) noexcept {
    Message message;
    message.opcode = opcode;
    message.solicited = headers.solicited;
    message.imm = headers.imm;
    message.length = headers.length;
    message.rkey = Key{headers.rkey};
    message.remote_address = headers.address;
    message.compare_add =
        opcode == VRDMA_SQ_ATOMIC_CMP_AND_SWP ? headers.compare : headers.swap_add;
    message.swap = headers.swap_add;
    message.srqn = Srqn{headers.srqn};
    return message;
}

bool is_write(vrdma_sq_opcode opcode) noexcept {
    return opcode == VRDMA_SQ_RDMA_WRITE || opcode == VRDMA_SQ_RDMA_WRITE_WITH_IMM;
}

// Whether a middle or last packet continues the message that its first packet began.
bool goes_on(const Inbound& in, const RequestPacket& request) noexcept {
    return in.open && is_write(in.message.opcode) == is_write(request.opcode);
}

bool has_right_size(const Connection& c, const RequestPacket& request, std::uint64_t length,
                    std::uint64_t payload) noexcept {
    if (is_write(request.opcode)) {
        const std::uint64_t left = length - c.in.offset;
        if (length > max_message_size) {
            return false;
        }
        return request.last ? payload == left && payload <= c.mtu
                            : payload == c.mtu && payload < left;
    }
    if (!request.last) {
        return payload == c.mtu;
    }
    return payload <= c.mtu && (request.first || payload != 0);
}

// The packet's piece of the incoming message. Only the last packet of a SEND shows its length.
// Until then, the length is one byte more than what has arrived.
Message next_piece(Connection& c, const RequestPacket& request,
                   const wire::Packet& packet) noexcept {
    Inbound& in = c.in;
    const wire::Headers& headers = packet.headers;
    if (request.first) {
        in.message = message_of(headers, request.opcode);
        in.offset = 0;
    } else {
        in.message.opcode = request.opcode;
        in.message.solicited = headers.solicited;
        in.message.imm = headers.imm;
        in.message.srqn = Srqn{headers.srqn};
        if (request.opcode == VRDMA_SQ_SEND_WITH_INV) {
            in.message.rkey = Key{headers.rkey};
        }
    }
    if (!is_write(request.opcode)) {
        in.message.length = in.offset + packet.payload.size() + (request.last ? 0 : 1);
    }
    return in.message;
}

// Executes a packet of a SEND or a WRITE.
Ack execute_piece(Connection& c, const RequestPacket& request,
                  const wire::Packet& packet) noexcept {
    const Message message = next_piece(c, request, packet);
    const SpanList payload = SpanList::reading(packet.payload);
    return execute(c.qp, {message, nullptr, payload, c.in.offset});
}

void receive_piece(Connection& c, const RequestPacket& request,
                   const wire::Packet& packet) noexcept {
    Inbound& in = c.in;
    const Psn psn = packet.headers.psn;
    if (request.first ? in.open : !goes_on(in, request)) {
        return refuse_sequence(c, psn);
    }
    in.offset = request.first ? 0 : in.offset;
    const std::uint64_t length = request.first ? packet.headers.length : in.message.length;
    if (!has_right_size(c, request, length, packet.payload.size())) {
        return refuse_sequence(c, psn);
    }
    const Ack ack = execute_piece(c, request, packet);
    if (ack.status != AckStatus::ok) {
        return conclude(c, psn, ack);
    }
    in.open = !request.last;
    in.offset += packet.payload.size();
    accepted(c, 1, request.last);
    if (packet.headers.ack_request) {
        acknowledge_soon(c);
    }
}

// Atomics are executed when they arrive. Their answers are kept.
Ack execute_atomic(Connection& c, Fetch& fetch, const wire::Packet& packet) noexcept {
    const bool writes = fetch.message.opcode == VRDMA_SQ_ATOMIC_WRITE;
    fetch.message.length = sizeof(fetch.original);
    const SpanList payload =
        writes ? SpanList::reading(packet.payload)
               : SpanList::of(std::as_writable_bytes(std::span{&fetch.original, 1}));
    return execute(c.qp, {fetch.message, nullptr, payload, 0});
}

// Makes room by forgetting requests that were answered, or repeated. Returns false if there is no
// room: the peer has more requests outstanding than it may (IBA 9.7.4.1.7).
bool make_room(Connection& c) noexcept {
    auto& fetches = c.in.fetches;
    const std::size_t most = std::min<std::size_t>(
        Inbound::max_fetches, std::max<std::size_t>(1, c.qp.attr.max_dest_rd_atomic));
    while (fetches.size() >= most) {
        if (!fetches.front().is_answered() && !fetches.front().repeated) {
            return false;
        }
        fetches.pop_front();
    }
    return true;
}

// A READ is answered in packets. Each of them is executed when it is built.
void receive_fetch(Connection& c, const RequestPacket& request,
                   const wire::Packet& packet) noexcept {
    Inbound& in = c.in;
    const Psn psn = packet.headers.psn;
    const bool writes = request.opcode == VRDMA_SQ_ATOMIC_WRITE;
    const bool reads = request.opcode == VRDMA_SQ_RDMA_READ;
    const std::size_t word = writes ? sizeof(std::uint64_t) : 0;
    if (in.open || packet.payload.size() != word || (writes && packet.headers.length != word) ||
        (reads && packet.headers.length > max_message_size) || !make_room(c)) {
        return refuse_sequence(c, psn);
    }
    Fetch fetch{.first = psn, .last = psn, .message = message_of(packet.headers, request.opcode)};
    if (reads) {
        fetch.last = add(psn, packets_of(fetch.message.length, c.mtu) - 1);
        const Ack ack = check_read(c.qp, fetch.message);
        if (ack.status != AckStatus::ok) {
            return conclude(c, psn, ack);
        }
    } else {
        const Ack ack = execute_atomic(c, fetch, packet);
        if (ack.status != AckStatus::ok) {
            return conclude(c, psn, ack);
        }
    }
    in.fetches.push_back(fetch);
    accepted(c, static_cast<std::uint32_t>(distance(psn, fetch.last)) + 1, true);
    c.port.answer_soon(c);
}

// The request came before: its answer was lost, or is late (IBA 9.7.5.1.2). Only a READ is executed
// again. The peer may want only the rest of it.
void receive_duplicate(Connection& c, const RequestPacket& request, Psn psn) noexcept {
    if (!request.valid) {
        return;
    }
    c.qp.count(VRDMA_COUNTER_DUPLICATE_REQUESTS);
    if (!is_answered(request.opcode)) {
        return acknowledge_soon(c);
    }
    if (auto* const fetch = find_fetch(c.in, request, psn); fetch != nullptr) {
        const auto from = static_cast<std::uint32_t>(distance(fetch->first, psn));
        if (from == fetch->begin && fetch->answered > from + 1) { // it got nothing of the answer
            c.port.note_silence();
        }
        if (from <= fetch->answered) {
            fetch->answered = fetch->begin = from;
        }
        fetch->repeated = true;
        c.port.answer_soon(c);
    }
}

void receive_reliable(Connection& c, const RequestPacket& request,
                      const wire::Packet& packet) noexcept {
    const Psn psn = packet.headers.psn;
    const std::int32_t behind = distance(psn, c.in.expected); // half of all PSNs: a duplicate
    if (behind > 0) {
        return receive_duplicate(c, request, psn);
    }
    if (behind < 0) {
        c.qp.count(VRDMA_COUNTER_OUT_OF_SEQUENCE);
        if (!c.in.told_gap) {
            send_nak_in_turn(c, nak_of(c.in.expected, VRDMA_NAK_PSN_SEQUENCE));
        }
        return;
    }
    if (!request.valid) { // IBA 9.7.4.1.2
        return refuse_sequence(c, psn);
    }
    if (is_answered(request.opcode)) {
        receive_fetch(c, request, packet);
    } else {
        receive_piece(c, request, packet);
    }
}

// After a gap, all packets are dropped up to the next message (IBA 9.8.3.1).
void receive_unreliable(Connection& c, const RequestPacket& request,
                        const wire::Packet& packet) noexcept {
    Inbound& in = c.in;
    const Psn psn = packet.headers.psn;
    const bool gap = psn != in.expected;
    in.expected = psn;
    if (gap || request.first) {
        in.open = false;
    }
    if (request.first || in.open) {
        receive_piece(c, request, packet);
    } else {
        c.qp.count(VRDMA_COUNTER_OUT_OF_SEQUENCE);
    }
    in.open = in.open && in.expected != psn;
    in.expected = add(psn, 1);
}

// The bytes of a READ that go into its next response.
struct Slot {
    std::uint64_t offset;
    std::uint32_t bytes;
    bool last;
};

Slot next_slot(const Connection& c, const Fetch& fetch) noexcept {
    const std::uint64_t offset = std::uint64_t{fetch.answered} * c.mtu;
    const std::uint64_t left = fetch.message.length - offset;
    return {offset, static_cast<std::uint32_t>(std::min<std::uint64_t>(left, c.mtu)),
            add(fetch.first, fetch.answered) == fetch.last};
}

enum class Sending : std::uint8_t { sent, no_room, later, failed };

// A piece of a READ failed. Everything before it was answered.
void give_up_response(Connection& c, Psn psn, Ack ack) noexcept {
    if (ends_message(ack)) { // and the QP has failed
        end(c);
    }
    if (const auto nak = nak_of(psn, ack)) {
        send_nak(c, *nak);
    }
}

// The memory of a READ that the peer has requested again is gone. A peer that has the answer drops
// this NAK as that of an earlier request (IBA 9.7.4.2).
Sending give_up_repeated(Connection& c, Fetch& fetch, Psn psn) noexcept {
    const Nak nak = nak_of(psn, VRDMA_NAK_REMOTE_ACCESS);
    if (!send_acknowledge(c, nak.psn, nak.syndrome)) {
        return Sending::no_room;
    }
    c.qp.count(nak.counter);
    fetch.answered = static_cast<std::uint32_t>(distance(fetch.first, fetch.last)) + 1;
    return Sending::sent;
}

Sending send_read_response(Connection& c, Fetch& fetch) noexcept {
    const Slot slot = next_slot(c, fetch);
    const Psn psn = add(fetch.first, fetch.answered);
    if (fetch.repeated && !can_read_again(c.qp, fetch.message)) {
        return give_up_repeated(c, fetch, psn);
    }
    const wire::Headers headers = answer_headers(
        c, pick(read_responses, fetch.answered == fetch.begin, slot.last), psn, positive(c));
    const auto draft = c.port.draft(c.path, headers.opcode, slot.bytes);
    if (!draft) {
        return Sending::no_room;
    }
    if (c.reaction.slowed() && !admit(c, slot.bytes)) {
        return Sending::later;
    }
    const SpanList payload = SpanList::of(draft->payload);
    const Ack ack = execute(c.qp, {fetch.message, nullptr, payload, slot.offset});
    if (ack.status != AckStatus::ok) {
        give_up_response(c, psn, ack);
        return Sending::failed;
    }
    send(c, *draft, headers);
    ++fetch.answered;
    return Sending::sent;
}

Sending send_atomic_response(Connection& c, Fetch& fetch) noexcept {
    const bool writes = fetch.message.opcode == VRDMA_SQ_ATOMIC_WRITE;
    wire::Headers headers =
        answer_headers(c, writes ? VRDMA_ROCE_READ_RESPONSE_ONLY : VRDMA_ROCE_ATOMIC_ACKNOWLEDGE,
                       fetch.first, positive(c));
    headers.original = fetch.original;
    const auto draft = c.port.draft(c.path, headers.opcode, 0);
    if (!draft) {
        return Sending::no_room;
    }
    send(c, *draft, headers);
    ++fetch.answered;
    return Sending::sent;
}

// Tells a peer, whose packets were lost while the slice was frozen, which one is expected.
// Otherwise it would wait for its own RTO, which has doubled with each try. A peer that has sent
// nothing drops this as a ghost acknowledge (IBA 9.7.4.2). There may be no gap, so a later one is
// told as well.
bool tell_expected(Connection& c) noexcept {
    const Nak nak = nak_of(c.in.expected, VRDMA_NAK_PSN_SEQUENCE);
    const bool sent = send_acknowledge(c, nak.psn, nak.syndrome);
    c.qp.count(nak.counter, sent ? 1 : 0);
    return sent;
}

// Sends the NAK or the acknowledgement for everything that arrived. Returns whether it still has to
// be sent.
bool acknowledge(Connection& c) noexcept {
    Inbound& in = c.in;
    if (in.nak ? !send_nak(c, *in.nak)
               : in.ack_due && !send_acknowledge(c, add(in.expected, psn_mask), positive(c))) {
        return true;
    }
    in.nak.reset();
    in.ack_due = false;
    if (in.frozen && !in.ending && !tell_expected(c)) {
        return true;
    }
    in.frozen = false;
    if (in.ending) {
        end(c);
    }
    return false;
}

bool answer_turn(Connection& c) noexcept {
    for (unsigned packets = 0; packets < turn_answers; ++packets) {
        if (!(c.qp.may_receive() || c.in.ending) || c.qp.slice.frozen()) {
            return false;
        }
        Fetch* const fetch = next_fetch(c.in);
        const bool any = fetch != nullptr || c.in.ack_due || c.in.nak || c.in.frozen;
        if (any && !c.port.find_target(c.qp.slice, c.path)) {
            c.port.await_target(c); // until then, a packet of the peer may show its address
            return false;
        }
        if (fetch == nullptr) {
            return acknowledge(c);
        }
        const Sending sending = fetch->message.opcode == VRDMA_SQ_RDMA_READ
                                    ? send_read_response(c, *fetch)
                                    : send_atomic_response(c, *fetch);
        if (sending != Sending::sent) {
            return sending == Sending::no_room;
        }
    }
    return true;
}

// Whether a NAK of the request is true, as it also acknowledges all packets before. The next packet
// may come while answers to those are due. A peer that repeats a READ from some packet on has the
// answers before.
bool may_nak(const Connection& c, const RequestPacket& request, Psn psn) noexcept {
    return request.valid &&
           (psn == c.in.expected ? !has_answers(c) : find_fetch(c.in, request, psn) != nullptr);
}

// Lets a peer wait for a frozen slice as for receives, so that the silence does not use up its
// retries. Nothing of the connection changes, as it may have been saved.
void tell_to_wait(Connection& c, const RequestPacket& request, Psn psn) noexcept {
    const Clock::duration frozen = c.qp.slice.frozen_for();
    if (may_nak(c, request, psn) && c.qp.may_receive() && peer_waits(c.qp) &&
        frozen < reliable_rest) {
        const Nak nak = rnr_nak_of(psn, network_rest_timer(frozen));
        c.qp.count(nak.counter, send_acknowledge(c, nak.psn, nak.syndrome) ? 1 : 0);
    }
}

} // namespace

void receive_request(Connection& c, const wire::Packet& packet) noexcept {
    const RequestPacket request = read_request(packet.headers.opcode);
    if (!request.valid) {
        c.qp.count(VRDMA_COUNTER_MALFORMED_PACKETS);
        if (!c.qp.reliable()) {
            return;
        }
    }
    if (c.qp.type == QpType::xrc_send) { // it only sends requests
        return c.qp.count(VRDMA_COUNTER_WRONG_STATES);
    }
    if (c.qp.slice.frozen()) {
        return tell_to_wait(c, request, packet.headers.psn);
    }
    c.executing = true;
    if (c.qp.reliable()) {
        receive_reliable(c, request, packet);
    } else {
        receive_unreliable(c, request, packet);
    }
    c.executing = false;
}

bool has_answers(const Connection& c) noexcept {
    return next_fetch(c.in) != nullptr;
}

void end(Connection& c) noexcept {
    const std::uint32_t msn = c.in.msn; // for a NAK that may follow
    c.in = {};
    c.in.msn = msn;
}

bool answer(Connection& c) noexcept {
    if (c.answering) {
        return false; // called by stop(), because a READ has failed
    }
    c.answering = true;
    const bool more = answer_turn(c);
    c.answering = false;
    return more;
}

} // namespace vrdma::hca::soft::roce
