// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/transport/roce/acknowledge.h"

#include "mediator/hca/soft/qp/qp_state.h"
#include "mediator/hca/soft/slice/engine.h"
#include "mediator/hca/soft/transport/roce/outbound.h"
#include "mediator/hca/soft/transport/roce/port.h"
#include "mediator/hca/soft/transport/roce/recover.h"
#include "mediator/hca/soft/transport/send_queue.h"
#include "vrdma/roce.h"

namespace vrdma::hca::soft::roce {
namespace {

// Whether the fate of the packets from `snd_una` on is still unknown. `before` is its value
// before the answer. An answer for more than the probe shows that the probed packet was
// not lost, so the others may be outstanding as well.
bool asks_again(const Outbound& out, Psn before) noexcept {
    return out.probing && distance(before, out.snd_una) > 1 && out.snd_una != out.snd_max;
}

// The peer has answered for all packets before `snd_una`.
void progressed(Connection& c) noexcept {
    c.out.recovering = false;
    c.out.resting = false;
    c.out.round_trip.arrived_before(c.out.snd_una, c.port.engine().now());
    c.qp.note_arrival();
    restart_timeout(c);
}

// All packets before `psn` have arrived. Completes their WQEs. Returns false if the response to one
// of them has not arrived: it was lost.
bool arrived_before(Connection& c, Psn psn) noexcept {
    Outbound& out = c.out;
    bool complete = true;
    const Psn before = out.snd_una;
    while (!out.sent.empty() && c.qp.may_send()) {
        const Sent& oldest = out.sent.front();
        if (distance(oldest.first, psn) <= 0) {
            break;
        }
        if (is_answered(oldest.opcode)) {
            const Psn due = distance(out.snd_una, oldest.first) > 0 ? oldest.first : out.snd_una;
            complete = distance(due, psn) <= 0;
            psn = due;
            break;
        }
        if (distance(oldest.last, psn) <= 0) {
            break;
        }
        out.snd_una = add(oldest.last, 1);
        if (!finish_oldest(c, IBV_WC_SUCCESS, VRDMA_VERR_NONE)) {
            return true; // its CQ has failed, and the QP with it
        }
    }
    if (distance(out.snd_una, psn) > 0) {
        out.snd_una = psn;
    }
    if (out.snd_una == before) {
        return complete;
    }
    out.probing = asks_again(out, before);
    progressed(c);
    if (out.probing || distance(out.snd_una, out.snd_nxt) < 0) {
        position(c, out.snd_una);
    }
    return complete;
}

// Called when there may be room in the window, or nothing left to wait for.
void go_on(Connection& c) noexcept {
    QueuePair& qp = c.qp;
    if (qp.state() == IBV_QPS_SQD && c.out.sent.empty()) {
        drained(qp);
    }
    qp.slice.engine().scheduler().wake(qp);
}

void refused(Connection& c, std::uint32_t why) noexcept {
    const bool misaligned = !c.out.sent.empty() && c.out.sent.front().misaligned;
    switch (why) {
        case VRDMA_NAK_PSN_SEQUENCE:
            c.qp.count(VRDMA_COUNTER_SEQUENCE_NAKS);
            return try_again(c, Cue::told);
        case VRDMA_NAK_REMOTE_ACCESS:
            return fail_oldest(c, IBV_WC_REM_ACCESS_ERR, VRDMA_VERR_PEER_ERROR);
        case VRDMA_NAK_REMOTE_OPERATION:
            return fail_oldest(c, IBV_WC_REM_OP_ERR, VRDMA_VERR_PEER_ERROR);
        case VRDMA_NAK_INVALID_REQUEST:
            return fail_oldest(c, IBV_WC_REM_INV_REQ_ERR,
                               misaligned ? VRDMA_VERR_ALIGNMENT : VRDMA_VERR_PEER_ERROR);
        default:
            return c.qp.count(VRDMA_COUNTER_MALFORMED_PACKETS); // reserved: as if it was lost
    }
}

void acknowledged(Connection& c, const wire::Headers& headers) noexcept {
    const std::uint32_t type = VRDMA_GET(VRDMA_SYNDROME_TYPE, headers.syndrome);
    const std::uint32_t value = VRDMA_GET(VRDMA_SYNDROME_VALUE, headers.syndrome);
    const bool positive = type == VRDMA_SYNDROME_ACK;
    if (!arrived_before(c, positive ? add(headers.psn, 1) : headers.psn)) {
        return recover(c);
    }
    if (c.qp.flushes()) {
        return;
    }
    if (type == VRDMA_SYNDROME_RNR_NAK) {
        return try_when_ready(c, static_cast<std::uint8_t>(value));
    }
    if (type == VRDMA_SYNDROME_NAK) {
        return refused(c, value);
    }
    go_on(c);
}

// Whether the packet is a well-formed part of the response to `sent`.
bool is_well_formed(const Connection& c, const Sent& sent, const wire::Packet& packet) noexcept {
    const std::uint8_t operation = packet.headers.opcode & VRDMA_ROCE_OPERATION;
    const Psn psn = packet.headers.psn;
    if (completed_message(sent).is_atomic()) {
        return operation == VRDMA_ROCE_ATOMIC_ACKNOWLEDGE;
    }
    if (operation == VRDMA_ROCE_ATOMIC_ACKNOWLEDGE) {
        return false;
    }
    const bool last = psn == sent.last;
    const bool ends =
        operation == VRDMA_ROCE_READ_RESPONSE_LAST || operation == VRDMA_ROCE_READ_RESPONSE_ONLY;
    const std::uint64_t expected =
        sent.opcode == VRDMA_SQ_ATOMIC_WRITE ? 0
        : !last                              ? c.mtu
        : sent.length == 0
            ? 0
            : sent.length -
                  std::uint64_t{static_cast<std::uint32_t>(distance(sent.first, psn))} * c.mtu;
    return ends == last && packet.payload.size() == expected;
}

// Takes the response that is expected now. Its WQE is read again.
void take_response(Connection& c, const wire::Packet& packet) noexcept {
    QueuePair& qp = c.qp;
    const Sent sent = c.out.sent.front();
    if (!is_well_formed(c, sent, packet)) {
        return fail_oldest(c, IBV_WC_BAD_RESP_ERR, VRDMA_VERR_PEER);
    }
    SendWqe wqe;
    const std::uint32_t ctrl = qp.sq.peek(sent.index);
    if (ctrl == 0 || parse(qp.sq.entry(sent.index), ctrl, qp.send_limits, wqe) ||
        wqe.opcode != sent.opcode || wqe.length != sent.length) {
        return fail_oldest(c, IBV_WC_LOC_LEN_ERR, VRDMA_VERR_LENGTH);
    }
    std::uint64_t original = packet.headers.original;
    const std::span bytes =
        wqe.is_atomic() ? std::as_bytes(std::span{&original, 1}) : packet.payload;
    const std::uint64_t offset =
        std::uint64_t{static_cast<std::uint32_t>(distance(sent.first, packet.headers.psn))} * c.mtu;
    const vrdma_vendor_err error = move_payload(qp, wqe, offset, SpanList::reading(bytes), Way::in);
    if (error == VRDMA_VERR_ABSENT) { // requested again when the page is there
        go_back(c);
        return wait_for_own_pages(qp);
    }
    if (error != VRDMA_VERR_NONE) {
        return fail_oldest(c, IBV_WC_LOC_PROT_ERR, error);
    }
    c.out.snd_una = add(packet.headers.psn, 1);
    c.out.probing = false;
    progressed(c);
    if (packet.headers.psn == sent.last && !finish_oldest(c, IBV_WC_SUCCESS, VRDMA_VERR_NONE)) {
        return;
    }
    if (distance(c.out.snd_una, c.out.snd_nxt) < 0) {
        position(c, c.out.snd_una);
    }
    go_on(c);
}

void answered(Connection& c, const wire::Packet& packet) noexcept {
    const Psn psn = packet.headers.psn;
    if (!arrived_before(c, psn)) {
        return recover(c);
    }
    const bool due = !c.out.sent.empty() && is_answered(c.out.sent.front().opcode) &&
                     c.out.snd_una == psn && distance(c.out.sent.front().first, psn) >= 0;
    if (due) {
        take_response(c, packet);
    } else {
        c.qp.count(VRDMA_COUNTER_STALE_RESPONSES);
    }
}

// Takes the peer's report about its receives.
void take_credits(Connection& c, const wire::Headers& headers) noexcept {
    const bool tells = (headers.opcode & VRDMA_ROCE_OPERATION) != VRDMA_ROCE_READ_RESPONSE_MIDDLE;
    if (tells && VRDMA_GET(VRDMA_SYNDROME_TYPE, headers.syndrome) == VRDMA_SYNDROME_ACK) {
        c.out.credits.told(VRDMA_GET(VRDMA_SYNDROME_VALUE, headers.syndrome));
    }
}

} // namespace

void receive_response(Connection& c, const wire::Packet& packet) noexcept {
    const Psn psn = packet.headers.psn;
    if (c.qp.slice.frozen()) {
        return; // a frozen slice receives nothing
    }
    const bool expected =
        c.qp.may_send() && distance(c.out.snd_una, psn) >= 0 && distance(psn, c.out.snd_max) > 0;
    if (!expected) { // an old one, or for no request (IBA 9.7.4.2: ghost acknowledge)
        return c.qp.count(VRDMA_COUNTER_STALE_RESPONSES);
    }
    if ((packet.headers.opcode & VRDMA_ROCE_OPERATION) == VRDMA_ROCE_ACKNOWLEDGE) {
        acknowledged(c, packet.headers);
    } else {
        answered(c, packet);
        if (c.qp.slice.paced()) [[unlikely]] {
            c.qp.slice.account().take_inbound(packet.payload.size(), c.port.engine().now());
        }
    }
    take_credits(c, packet.headers);
}

} // namespace vrdma::hca::soft::roce
