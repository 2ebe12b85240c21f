// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/requester.h"

#include <algorithm>

#include "mediator/hca/soft/datagram.h"
#include "mediator/hca/soft/engine.h"
#include "mediator/hca/soft/peer.h"
#include "mediator/hca/soft/qp_state.h"
#include "mediator/hca/soft/responder.h"
#include "mediator/hca/soft/retry.h"

namespace vrdma::hca::soft {
namespace {

// A turn's last piece may be somewhat longer than what is left of the turn, so that atomics and
// inline data are never divided.
constexpr std::uint64_t smallest_piece = 4096;

ibv_wc_opcode completion_opcode(vrdma_sq_opcode opcode) noexcept {
    switch (opcode) {
        case VRDMA_SQ_RDMA_WRITE:
        case VRDMA_SQ_RDMA_WRITE_WITH_IMM:
            return IBV_WC_RDMA_WRITE;
        case VRDMA_SQ_RDMA_READ:
            return IBV_WC_RDMA_READ;
        case VRDMA_SQ_ATOMIC_CMP_AND_SWP:
            return IBV_WC_COMP_SWAP;
        case VRDMA_SQ_ATOMIC_FETCH_AND_ADD:
            return IBV_WC_FETCH_ADD;
        default:
            return IBV_WC_SEND;
    }
}

// The WQE at the head is done. Returns false if its completion found no room.
bool complete(QueuePair& qp, const Message& message, ibv_wc_status status,
              vrdma_vendor_err reason) noexcept {
    const std::uint32_t index = qp.sq.head();
    qp.sq.advance();
    qp.sent = 0;
    qp.sq_started = false;
    if (status == IBV_WC_SUCCESS && !message.signaled && !qp.signal_all) {
        return true;
    }
    vrdma_cqe entry{};
    entry.ctrl =
        VRDMA_SET(VRDMA_CQE_STATUS, static_cast<std::uint32_t>(status)) |
        VRDMA_SET(VRDMA_CQE_OPCODE, static_cast<std::uint32_t>(completion_opcode(message.opcode)));
    entry.qpn = qp.id.value;
    entry.wqe_index = index;
    if (status == IBV_WC_SUCCESS && message.is_fetch()) {
        entry.byte_len = static_cast<std::uint32_t>(message.length);
    }
    entry.vendor_err = reason;
    return qp.slice.complete(qp.send_cq, entry, status != IBV_WC_SUCCESS);
}

void succeed(QueuePair& qp, const Message& message) noexcept {
    if (complete(qp, message, IBV_WC_SUCCESS, VRDMA_VERR_NONE) && qp.state() == IBV_QPS_SQD) {
        drained(qp);
    }
}

void fail_message(QueuePair& qp, const Message& message, ibv_wc_status status,
                  vrdma_vendor_err reason) noexcept {
    if (complete(qp, message, status, reason)) {
        fail_sending(qp);
    }
}

void retry_later(QueuePair& qp, Clock::duration delay) noexcept {
    qp.sent = 0;
    qp.slice.engine().scheduler().wait_until(qp, Clock::now() + delay);
}

void retry_lost(QueuePair& qp, const Message& message) noexcept {
    if (qp.attr.timeout != 0 && qp.retries_left-- == 0) {
        fail_message(qp, message, IBV_WC_RETRY_EXC_ERR, VRDMA_VERR_PEER);
        return;
    }
    retry_later(qp, ack_timeout(qp.attr.timeout));
}

void retry_not_ready(QueuePair& qp, const Message& message, std::uint8_t timer) noexcept {
    constexpr std::uint8_t without_end = 7;
    if (qp.attr.rnr_retry != without_end && qp.rnr_retries_left-- == 0) {
        fail_message(qp, message, IBV_WC_RNR_RETRY_EXC_ERR, VRDMA_VERR_PEER);
        return;
    }
    retry_later(qp, rnr_delay(timer));
}

void arrived(QueuePair& qp, const Request& request) noexcept {
    if (request.last()) {
        succeed(qp, request.message);
    } else {
        qp.sent += request.payload.bytes();
    }
    qp.refill_retries();
}

void answered(QueuePair& qp, const Request& request, const Ack& ack) noexcept {
    const Message& message = request.message;
    switch (ack.status) {
        case AckStatus::ok:
            return arrived(qp, request);
        case AckStatus::no_answer:
            return retry_lost(qp, message);
        case AckStatus::receiver_not_ready:
            return retry_not_ready(qp, message, ack.rnr_timer);
        case AckStatus::invalid_request:
            return fail_message(
                qp, message, IBV_WC_REM_INV_REQ_ERR,
                message.is_atomic() && message.remote_address % sizeof(std::uint64_t) != 0
                    ? VRDMA_VERR_ALIGNMENT
                    : VRDMA_VERR_PEER_ERROR);
        case AckStatus::access_error:
            return fail_message(qp, message, IBV_WC_REM_ACCESS_ERR, VRDMA_VERR_PEER_ERROR);
        case AckStatus::operation_error:
            return fail_message(qp, message, IBV_WC_REM_OP_ERR, VRDMA_VERR_PEER_ERROR);
        case AckStatus::payload_revoked:
            return fail_message(qp, message, IBV_WC_LOC_PROT_ERR, VRDMA_VERR_REVOKED);
    }
}

// Nobody answers on UC: only what went wrong here is known (IBA 9.8.2).
void sent_unreliably(QueuePair& qp, const Request& request, const Ack& ack) noexcept {
    if (ack.status == AckStatus::payload_revoked) {
        fail_message(qp, request.message, IBV_WC_LOC_PROT_ERR, VRDMA_VERR_REVOKED);
    } else if (ack.status == AckStatus::ok) {
        arrived(qp, request);
    } else {
        succeed(qp, request.message); // the rest would be dropped as well
    }
}

// Finds the payload of the next piece in this side's memory.
vrdma_vendor_err open_payload(QueuePair& qp, const SendWqe& wqe, SpanList& payload) noexcept {
    if (!wqe.inline_data.empty()) {
        payload.add(wqe.inline_data);
        return VRDMA_VERR_NONE;
    }
    const std::uint32_t rights = wqe.is_fetch() ? IBV_ACCESS_LOCAL_WRITE : 0;
    return qp.slice.gate().open_list(wqe.list(), qp.pd, rights, qp.sent, payload);
}

// To a slice of another poller, whose answer comes later.
std::optional<std::uint64_t> send_away(QueuePair& qp, const Request& request,
                                       const std::optional<Route>& route, SliceCore& to) noexcept {
    if (!route || !qp.slice.engine().exchange().send(qp, request, *route, to)) {
        return std::nullopt;
    }
    qp.sq_started = true;
    return request.payload.bytes();
}

// Sends the next piece of the message at the head. Returns its bytes; nothing if that must wait.
std::optional<std::uint64_t> send_piece(QueuePair& qp, const SendWqe& wqe,
                                        std::uint64_t limit) noexcept {
    if (wqe.is_fetch() && qp.attr.max_rd_atomic == 0) {
        fail_message(qp, wqe, IBV_WC_LOC_QP_OP_ERR, VRDMA_VERR_OPCODE);
        return 0;
    }
    SpanList payload{limit};
    const vrdma_vendor_err error = open_payload(qp, wqe, payload);
    if (error != VRDMA_VERR_NONE) {
        fail_message(qp, wqe, IBV_WC_LOC_PROT_ERR, error);
        return 0;
    }
    const Request request{wqe, qp.slice, payload, qp.sent};
    const Peer& peer = find_peer(qp);
    if (peer.elsewhere != nullptr) {
        return send_away(qp, request, route_of(qp), *peer.elsewhere);
    }
    qp.sq_started = true;
    conclude(qp, request,
             peer.qp != nullptr ? receive(*peer.qp, request) : Ack{AckStatus::no_answer});
    return payload.bytes();
}

std::optional<std::uint64_t> send_one_datagram(QueuePair& qp, const SendWqe& wqe) noexcept {
    SpanList payload{max_datagram_size};
    const vrdma_vendor_err error = open_payload(qp, wqe, payload);
    if (error != VRDMA_VERR_NONE) {
        fail_message(qp, wqe, IBV_WC_LOC_PROT_ERR, error);
        return 0;
    }
    const AddressHandle* ah = qp.slice.ah(wqe.ah);
    if (ah == nullptr || ah->pd != qp.pd) {
        fail_message(qp, wqe, IBV_WC_LOC_QP_OP_ERR, VRDMA_VERR_AH);
        return 0;
    }
    const Request request{wqe, qp.slice, payload, 0};
    const auto route = route_of(qp, wqe, *ah);
    Engine& engine = qp.slice.engine();
    SliceCore* const to = route ? engine.fabric().find(route->target, qp.slice) : nullptr;
    if (to != nullptr && &to->engine() != &engine) {
        return send_away(qp, request, route, *to);
    }
    conclude(qp, request,
             to != nullptr ? receive_datagram(*to, *route, request) : Ack{AckStatus::no_answer});
    return payload.bytes();
}

} // namespace

void conclude(QueuePair& qp, const Request& request, const Ack& ack) noexcept {
    if (!qp.may_send()) {
        return; // it failed meanwhile, perhaps because its peer is itself or shares a CQ with it
    }
    if (qp.reliable()) {
        answered(qp, request, ack);
    } else {
        sent_unreliably(qp, request, ack);
    }
}

Turn send_messages(QueuePair& qp) noexcept {
    const Config& config = qp.slice.engine().config();
    std::uint64_t bytes_left = config.turn_bytes;
    SendWqe wqe;
    for (unsigned pieces = 0; pieces < config.turn_wqes && bytes_left > 0; ++pieces) {
        const bool waits = qp.timer.place != Timer::unset || qp.waits_for_parcel();
        const std::uint32_t ctrl = qp.may_send() && !waits ? qp.sq.peek() : 0;
        if (ctrl == 0) {
            return pieces != 0 ? Turn::more : Turn::idle;
        }
        if (const WqeError error = parse(qp.sq.entry(), ctrl, qp.send_limits, wqe)) {
            fail_message(qp, wqe, static_cast<ibv_wc_status>(error.status), error.reason);
            continue;
        }
        if (qp.sent > wqe.length) { // the guest changed it while it was being sent
            fail_message(qp, wqe, IBV_WC_LOC_LEN_ERR, VRDMA_VERR_LENGTH);
            continue;
        }
        const auto sent = qp.type == QpType::ud
                              ? send_one_datagram(qp, wqe)
                              : send_piece(qp, wqe, std::max(bytes_left, smallest_piece));
        if (!sent) {
            return Turn::idle;
        }
        bytes_left -= std::min(bytes_left, *sent);
    }
    return Turn::more;
}

} // namespace vrdma::hca::soft
