// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/transport/roce/send.h"

#include <algorithm>

#include "mediator/hca/soft/common/hole_count.h"
#include "mediator/hca/soft/slice/engine.h"
#include "mediator/hca/soft/transport/headers.h"
#include "mediator/hca/soft/transport/retry.h"
#include "mediator/hca/soft/transport/roce/outbound.h"
#include "mediator/hca/soft/transport/roce/port.h"
#include "mediator/hca/soft/transport/send_queue.h"

namespace vrdma::hca::soft::roce {
namespace {

// The number of packets that may be outstanding to a peer, and the number per requested
// acknowledgement.
constexpr std::int32_t window = 256;
constexpr Psn packets_per_ack = 16;
// The number of packets that one QP may send before the others have their turn.
constexpr unsigned turn_packets = 32;

bool has_room(const Outbound& out) noexcept {
    return distance(out.snd_una, out.snd_nxt) < (out.probing ? 1 : window) &&
           (is_begun(out) || !out.sent.full());
}

// Whether the rest of a message must wait, because there may be no receive for it.
bool awaits_receive(const Connection& c) noexcept {
    const Sent& sent = c.out.sent[c.out.cursor];
    return sent.asks && c.qp.sent != 0 && distance(c.out.snd_una, sent.first) >= 0;
}

// Whether another WQE may be begun, or the current one continued.
bool may_go_on(const Connection& c, std::uint32_t ctrl) noexcept {
    if (is_begun(c.out)) {
        return !awaits_receive(c);
    }
    if (c.qp.sent != 0) {
        return true;
    }
    const bool fenced = (ctrl & VRDMA_SQ_FENCE) != 0 && c.out.fetches != 0;
    const std::uint32_t opcode = VRDMA_GET(VRDMA_SQ_OPCODE, ctrl);
    return c.qp.state() == IBV_QPS_RTS && !fenced &&
           (!takes_receive(opcode) || c.out.credits.may_begin());
}

// Whether the WQE at the head need not wait for earlier ones.
bool is_alone(const Outbound& out) noexcept {
    return out.sent.empty() || (out.sent.size() == 1 && out.cursor == 0);
}

// A WQE that cannot be executed fails when all before it are done.
Turn fail_in_turn(Connection& c, const SendWqe& wqe, ibv_wc_status status,
                  vrdma_vendor_err reason) noexcept {
    QueuePair& qp = c.qp;
    if (!is_alone(c.out)) {
        qp.slice.engine().scheduler().withdraw(qp);
        return Turn::idle;
    }
    if (is_begun(c.out)) {
        fail_oldest(c, status, reason);
    } else {
        fail_message(qp, wqe, status, reason);
    }
    return Turn::more;
}

Turn execute_in_turn(Connection& c, const SendWqe& wqe) noexcept {
    if (!c.out.sent.empty()) {
        c.qp.slice.engine().scheduler().withdraw(c.qp);
        return Turn::idle;
    }
    execute_here(c.qp, wqe);
    return Turn::more;
}

// A WRITE does not ask, because it takes its receive only at the end.
bool asks_for_receive(const Connection& c, const SendWqe& wqe) noexcept {
    return takes_receive(wqe.opcode) && wqe.opcode != VRDMA_SQ_RDMA_WRITE_WITH_IMM &&
           (is_begun(c.out) ? c.out.sent[c.out.cursor].asks : c.out.credits.asks());
}

void begin(Connection& c, const SendWqe& wqe) noexcept {
    c.qp.sq_started = true;
    if (!is_reliable(c) || is_begun(c.out)) {
        return;
    }
    if (c.out.sent.empty()) { // the timer may still be that of an answered message
        restart_timeout(c);
    }
    const bool atomic = wqe.is_aligned();
    const std::uint32_t packets = atomic ? 1 : packets_of(wqe.length, c.mtu);
    const bool asks = asks_for_receive(c, wqe);
    if (takes_receive(wqe.opcode)) {
        c.out.credits.begin();
    }
    c.out.sent.push_back({.index = c.qp.sq.head(),
                          .first = c.out.snd_nxt,
                          .last = add(c.out.snd_nxt, packets - 1),
                          .opcode = wqe.opcode,
                          .signaled = wqe.signaled,
                          .misaligned = atomic && wqe.remote_address % sizeof(std::uint64_t) != 0,
                          .asks = asks,
                          .length = wqe.length});
    c.out.fetches += is_answered(wqe.opcode) ? 1 : 0;
}

// The guest must not change an outstanding WQE: the responder has seen its former content.
bool is_unchanged(const Connection& c, const SendWqe& wqe) noexcept {
    if (!is_begun(c.out)) {
        return c.qp.sent <= wqe.length;
    }
    const Sent& sent = c.out.sent[c.out.cursor];
    return sent.opcode == wqe.opcode && sent.length == wqe.length;
}

struct Piece {
    std::uint64_t offset;
    std::uint32_t bytes; // of payload in the packet
    bool first;
    bool last;
};

Piece next_piece(const Connection& c, const SendWqe& wqe) noexcept {
    const std::uint64_t offset = c.qp.sent;
    if (wqe.is_fetch()) {
        return {offset, 0, true, true};
    }
    const auto bytes =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(c.mtu, wqe.length - offset));
    return {offset, bytes, offset == 0, offset + bytes == wqe.length};
}

wire::Headers headers_of(const Connection& c, const SendWqe& wqe, const Piece& piece) noexcept {
    wire::Headers headers = soft::headers_of(c.qp.type, wqe, piece.offset, piece.first, piece.last);
    headers.pkey = c.qp.pkey();
    headers.target_qpn = c.qp.attr.dest_qpn;
    headers.psn = c.out.snd_nxt;
    headers.ack_request =
        is_reliable(c) && (piece.last || c.out.probing || c.out.snd_nxt % packets_per_ack == 0 ||
                           (piece.first && asks_for_receive(c, wqe)));
    return headers;
}

// The packet was sent.
void advance(Connection& c, const SendWqe& wqe, const Piece& piece) noexcept {
    QueuePair& qp = c.qp;
    Outbound& out = c.out;
    qp.sent += piece.bytes;
    out.snd_nxt =
        is_begun(out) && piece.last ? add(out.sent[out.cursor].last, 1) : add(out.snd_nxt, 1);
    if (distance(out.snd_max, out.snd_nxt) > 0) {
        out.snd_max = out.snd_nxt;
    } else {
        qp.count(VRDMA_COUNTER_RETRANSMITS);
    }
    if (!piece.last) {
        return;
    }
    if (is_begun(out)) {
        ++out.cursor;
        qp.sq.advance();
        qp.sent = 0;
    } else {
        succeed(qp, wqe); // UC has no answers
    }
}

// Checks the destination of a READ before the READ is sent.
vrdma_vendor_err check_sink(QueuePair& qp, const SendWqe& wqe) noexcept {
    if (!wqe.is_fetch() || wqe.length == 0) {
        return VRDMA_VERR_NONE;
    }
    SpanList sink{wqe.length - qp.sent};
    return open_payload(qp, wqe, qp.sent, sink);
}

// UC may lose packets. But the first ones should not be lost while the peer's address is looked up.
Turn send_nowhere(Connection& c, const SendWqe& wqe, const Piece& piece) noexcept {
    if (c.qp.page_waits < unreliable_page_waits) {
        wait_for_pages(c.qp);
        return Turn::idle;
    }
    advance(c, wqe, piece);
    return Turn::more;
}

// A peer that does not answer the question for its Ethernet address is treated like one whose
// packets are lost.
Turn await_target(Connection& c, const SendWqe& wqe, const Piece& piece) noexcept {
    begin(c, wqe);
    if (!is_reliable(c)) {
        return send_nowhere(c, wqe, piece);
    }
    if (c.timer.place == Timer::unset) {
        arm(c);
    }
    c.qp.slice.engine().scheduler().withdraw(c.qp);
    c.port.await_target(c);
    return Turn::idle;
}

// For a QP that is slowed. The timeout of outstanding packets begins with the last packet.
bool pace(Connection& c, const Piece& piece) noexcept {
    if (!admit(c, piece.bytes)) {
        c.qp.slice.engine().scheduler().withdraw(c.qp);
        return false;
    }
    restart_timeout(c);
    return true;
}

// Sends the next packet of the WQE at the head.
Turn send_packet(Connection& c, const SendWqe& wqe) noexcept {
    QueuePair& qp = c.qp;
    Scheduler& scheduler = qp.slice.engine().scheduler();
    const Piece piece = next_piece(c, wqe);
    const wire::Headers headers = headers_of(c, wqe, piece);
    if (!c.port.find_target(c.qp.slice, c.path)) {
        return await_target(c, wqe, piece);
    }
    const auto draft = c.port.draft(c.path, headers.opcode, piece.bytes);
    if (!draft) {
        scheduler.withdraw(qp);
        c.port.await_room(c);
        return Turn::idle;
    }
    if (c.reaction.slowed() && !pace(c, piece)) {
        return Turn::idle;
    }
    const vrdma_vendor_err unsound = check_sink(qp, wqe);
    const vrdma_vendor_err error =
        unsound != VRDMA_VERR_NONE
            ? unsound
            : move_payload(qp, wqe, piece.offset, SpanList::of(draft->payload), Way::out);
    if (error == VRDMA_VERR_ABSENT) {
        wait_for_own_pages(qp);
        return Turn::idle;
    }
    if (error != VRDMA_VERR_NONE) {
        return fail_in_turn(c, wqe, IBV_WC_LOC_PROT_ERR, error);
    }
    begin(c, wqe);
    c.port.send(qp.slice, *draft, c.path, headers);
    qp.count(VRDMA_COUNTER_TX_PACKETS);
    qp.slice.account().charge_packet(draft->payload.size());
    if (headers.ack_request && headers.psn == c.out.snd_max) {
        c.out.round_trip.sent(headers.psn, c.port.engine().now());
    }
    if (is_reliable(c) && c.timer.place == Timer::unset) {
        arm(c);
    }
    advance(c, wqe, piece);
    return Turn::more;
}

Turn send_next(Connection& c, std::uint32_t ctrl) noexcept {
    QueuePair& qp = c.qp;
    SendWqe wqe;
    if (const WqeError error = parse(qp.sq.entry(), ctrl, qp.send_limits, wqe)) {
        return fail_in_turn(c, wqe, static_cast<ibv_wc_status>(error.status), error.reason);
    }
    if (!is_unchanged(c, wqe)) {
        return fail_in_turn(c, wqe, IBV_WC_LOC_LEN_ERR, VRDMA_VERR_LENGTH);
    }
    if (wqe.is_local()) {
        return execute_in_turn(c, wqe);
    }
    const bool answered = is_answered(wqe.opcode);
    if (answered && qp.attr.max_rd_atomic == 0) {
        return fail_in_turn(c, wqe, IBV_WC_LOC_QP_OP_ERR, VRDMA_VERR_OPCODE);
    }
    if (answered && !is_begun(c.out) && c.out.fetches >= qp.attr.max_rd_atomic) {
        qp.slice.engine().scheduler().withdraw(qp);
        return Turn::idle; // a response wakes it
    }
    return send_packet(c, wqe);
}

} // namespace

Turn send_packets(Connection& c) noexcept {
    QueuePair& qp = c.qp;
    Account& account = qp.slice.account();
    HoleCount holes;
    for (unsigned packets = 0; packets < turn_packets && account.in_credit(); ++packets) {
        const bool ready = qp.may_send() && !waits(qp) && !c.awaits_room.linked;
        const std::uint32_t ctrl = ready ? qp.sq.peek() : 0;
        if (ctrl == 0) {
            return packets != 0 ? Turn::more : Turn::idle;
        }
        if ((is_reliable(c) && !has_room(c.out)) || !may_go_on(c, ctrl)) {
            qp.slice.engine().scheduler().withdraw(qp);
            return Turn::idle; // an acknowledgement wakes it
        }
        const Turn sent = send_next(c, ctrl);
        if (holes.any()) [[unlikely]] {
            account.charge_holes(holes.take(), qp.slice.engine().now());
        }
        if (sent == Turn::idle) {
            return Turn::idle;
        }
    }
    return Turn::more;
}

} // namespace vrdma::hca::soft::roce
