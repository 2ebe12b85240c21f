// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/roce/requester.h"

#include <algorithm>

#include "mediator/hca/soft/copy.h"
#include "mediator/hca/soft/engine.h"
#include "mediator/hca/soft/hole_count.h"
#include "mediator/hca/soft/qp_state.h"
#include "mediator/hca/soft/requester.h"
#include "mediator/hca/soft/retry.h"
#include "mediator/hca/soft/roce/opcode.h"
#include "mediator/hca/soft/roce/port.h"
#include "mediator/hca/soft/scratch_watch.h"
#include "mediator/hca/soft/send_completion.h"
#include "vrdma/roce.h"

namespace vrdma::hca::soft::roce {
namespace {

// The number of packets that may be outstanding to a peer, and the number per requested
// acknowledgement.
constexpr std::int32_t window = 128;
constexpr Psn packets_per_ack = 16;
// The number of packets that one QP may send before the others have their turn.
constexpr unsigned turn_packets = 32;

bool is_reliable(const Connection& c) noexcept {
    return c.qp.reliable();
}

// Whether the WQE at the head has a place in `sent` already.
bool is_begun(const Outbound& out) noexcept {
    return out.cursor < out.sent.size();
}

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

Clock::time_point next_rto_deadline(const Connection& c, Clock::time_point now) noexcept {
    const auto rto = c.out.round_trip.rto(c.port.engine().config().min_rto);
    return rto ? std::min(c.out.deadline, now + *rto) : c.out.deadline;
}

// The outstanding packets get the whole timeout again.
void restart_timeout(Connection& c) noexcept {
    Outbound& out = c.out;
    const Clock::time_point now = c.port.engine().now();
    out.deadline = now + ack_timeout(c.qp.attr.timeout);
    out.rto_deadline = next_rto_deadline(c, now);
    if (c.timer.place != Timer::unset && out.rto_deadline < c.timer.deadline) {
        c.port.set_timer(c);
    }
}

void arm(Connection& c) noexcept {
    restart_timeout(c);
    c.port.set_timer(c);
}

// Completes the oldest WQE.
bool finish_oldest(Connection& c, ibv_wc_status status, vrdma_vendor_err reason) noexcept {
    QueuePair& qp = c.qp;
    const Sent oldest = c.out.sent.front();
    c.out.sent.pop_front();
    c.out.fetches -= is_answered(oldest.opcode) ? 1 : 0;
    if (takes_receive(oldest.opcode)) {
        c.out.credits.done();
    }
    if (c.out.cursor != 0) {
        --c.out.cursor;
    } else { // it was to be sent again
        qp.sq.seek(oldest.index + 1);
        qp.sent = 0;
        c.out.snd_nxt = add(oldest.last, 1);
    }
    qp.sq_started = !c.out.sent.empty();
    qp.page_waits = 0;
    const Message message = oldest.message();
    if (status == IBV_WC_SUCCESS) {
        count_success(qp, message);
        if (!message.signaled && !qp.signal_all) {
            return true;
        }
    } else {
        count_failure(qp, status);
    }
    return write_completion(qp, oldest.index, message, status, reason);
}

// The oldest WQE fails, and with it the QP.
void fail_oldest(Connection& c, ibv_wc_status status, vrdma_vendor_err reason) noexcept {
    if (c.out.sent.empty()) {
        return;
    }
    if (finish_oldest(c, status, reason)) {
        fail_sending(c.qp);
    }
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
    wire::Headers headers;
    headers.opcode = request_opcode(c.qp.type, wqe.opcode, piece.first, piece.last);
    headers.solicited = wqe.solicited && piece.last && takes_receive(wqe.opcode);
    headers.pkey = c.qp.pkey();
    headers.target_qpn = c.qp.attr.dest_qpn;
    headers.psn = c.out.snd_nxt;
    headers.ack_request =
        is_reliable(c) && (piece.last || c.out.probing || c.out.snd_nxt % packets_per_ack == 0 ||
                           (piece.first && asks_for_receive(c, wqe)));
    headers.address = wqe.remote_address + (wqe.opcode == VRDMA_SQ_RDMA_READ ? piece.offset : 0);
    headers.rkey = wqe.rkey.value;
    headers.length = static_cast<std::uint32_t>(
        wqe.length - (wqe.opcode == VRDMA_SQ_RDMA_READ ? piece.offset : 0));
    const bool swaps = wqe.opcode == VRDMA_SQ_ATOMIC_CMP_AND_SWP;
    headers.swap_add = swaps ? wqe.swap : wqe.compare_add;
    headers.compare = swaps ? wqe.compare_add : 0;
    headers.imm = wqe.imm;
    headers.srqn = wqe.srqn.value;
    return headers;
}

enum class Way : std::uint8_t { out, in };

// Copies the bytes of a packet out of the guest's memory, or into it, from `offset` in the message
// on.
vrdma_vendor_err move_payload(QueuePair& qp, const SendWqe& wqe, std::uint64_t offset,
                              const SpanList& packet, Way way) noexcept {
    SpanCursor there{packet};
    for (std::uint64_t done = 0; done < packet.bytes();) { // each pass moves at least one span
        SpanList own{packet.bytes() - done};
        const vrdma_vendor_err error = open_payload(qp, wqe, offset + done, own);
        if (error != VRDMA_VERR_NONE) {
            return error;
        }
        const ScratchWatch watch{qp.slice.memory()};
        SpanCursor here{own};
        way == Way::out ? copy(there, here) : copy(here, there);
        if (watch.tripped()) {
            if (wqe.inline_data.empty()) {
                release(qp.slice.memory(), own);
            }
            return VRDMA_VERR_REVOKED;
        }
        done += own.bytes();
    }
    return VRDMA_VERR_NONE;
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
    c.port.send(*draft, c.path, headers);
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

// Continues with `psn`, and the WQE that it belongs to: for the next packet to send, or the next
// response.
void position(Connection& c, Psn psn) noexcept {
    Outbound& out = c.out;
    QueuePair& qp = c.qp;
    out.snd_nxt = psn;
    for (out.cursor = 0; out.cursor < out.sent.size(); ++out.cursor) {
        const Sent& sent = out.sent[out.cursor];
        if (distance(psn, sent.last) >= 0) {
            qp.sq.seek(sent.index);
            qp.sent = std::uint64_t{static_cast<std::uint32_t>(distance(sent.first, psn))} * c.mtu;
            return;
        }
        qp.sq.seek(sent.index + 1);
    }
    qp.sent = 0;
}

// Whether the fate of the packets from `oldest` on is still unknown. `before` is the value of
// `oldest` before the answer. An answer for more than the probe shows that the probed packet was
// not lost, so the others may be outstanding as well.
bool asks_again(const Outbound& out, Psn before) noexcept {
    return out.probing && distance(before, out.snd_una) > 1 && out.snd_una != out.snd_max;
}

// The peer has answered for all packets before `oldest`.
void progressed(Connection& c) noexcept {
    c.out.recovering = false;
    c.out.round_trip.arrived_before(c.out.snd_una, c.port.engine().now());
    c.qp.refill_retries();
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

bool waits(const QueuePair& qp) noexcept {
    return qp.timer.place != Timer::unset;
}

// It is not known what has arrived, so one packet asks. Sending all of them would make a peer that
// is only slow even slower, because it has to answer each.
void probe(Connection& c) noexcept {
    go_back(c);
    c.out.probing = true;
}

enum class Cue : std::uint8_t { told, silence };

// Retransmits, if there are retries left. The peer may have moved, so its address is looked up
// again.
void try_again(Connection& c, Cue cue) noexcept {
    QueuePair& qp = c.qp;
    if (waits(qp)) { // for the peer's receives, or for pages: it then retransmits anyway
        return position(c, c.out.snd_una);
    }
    if ((cue == Cue::told || qp.attr.timeout != 0) && qp.retries_left-- == 0) {
        fail_oldest(c, IBV_WC_RETRY_EXC_ERR, VRDMA_VERR_PEER);
        return;
    }
    c.port.look_again(c);
    cue == Cue::told ? go_back(c) : probe(c);
    arm(c);
    qp.slice.engine().scheduler().wake(qp);
}

// The peer usually answers much earlier. This does not count as a retry: the peer has the whole
// timeout to answer.
void hurry(Connection& c, Clock::time_point now) noexcept {
    Outbound& out = c.out;
    c.qp.count(VRDMA_COUNTER_EARLY_RETRIES);
    out.round_trip.back_off();
    c.port.look_again(c);
    out.rto_deadline = next_rto_deadline(c, now);
    c.port.set_timer(c);
    probe(c);
    c.qp.slice.engine().scheduler().wake(c.qp);
}

// A response was lost, as a later packet shows. Further packets that show the same are ignored.
void recover(Connection& c) noexcept {
    if (!c.out.recovering) {
        c.qp.count(VRDMA_COUNTER_IMPLIED_NAKS);
        c.out.recovering = true;
        try_again(c, Cue::told);
    }
}

void try_when_ready(Connection& c, std::uint8_t timer) noexcept {
    QueuePair& qp = c.qp;
    constexpr std::uint8_t without_end = 7;
    if (waits(qp)) {
        return; // the network duplicated the NAK
    }
    qp.count(VRDMA_COUNTER_RNR_NAKS);
    if (qp.attr.rnr_retry != without_end && qp.rnr_retries_left-- == 0) {
        fail_oldest(c, IBV_WC_RNR_RETRY_EXC_ERR, VRDMA_VERR_PEER);
        return;
    }
    qp.retries_left = qp.attr.retry_cnt; // nothing was lost: the peer has answered
    go_back(c);
    qp.slice.engine().scheduler().wait_until(qp, Clock::now() + rnr_delay(timer));
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
    if (sent.message().is_atomic()) {
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

void go_back(Connection& c) noexcept {
    c.port.engine().scheduler().withdraw(c.qp);
    c.out.round_trip.sent_again();
    c.out.probing = false;
    position(c, c.out.snd_una);
}

Turn send_packets(QueuePair& qp) noexcept {
    Connection& c = *qp.connection;
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
    }
    take_credits(c, packet.headers);
}

void expire(Connection& c, Clock::time_point now) noexcept {
    QueuePair& qp = c.qp;
    if (!qp.may_send() || c.out.sent.empty()) {
        return;
    }
    if (waits(qp)) {
        return arm(c);
    }
    if (now < c.out.rto_deadline) {
        return c.port.set_timer(c);
    }
    if (now < c.out.deadline) {
        return hurry(c, now);
    }
    qp.count(VRDMA_COUNTER_ACK_TIMEOUTS);
    try_again(c, Cue::silence);
}

} // namespace vrdma::hca::soft::roce
