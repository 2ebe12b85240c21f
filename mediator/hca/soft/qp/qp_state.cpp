// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/qp/qp_state.h"

#include "mediator/hca/soft/qp/memory_keys.h"
#include "mediator/hca/soft/qp/receive_queue.h"
#include "mediator/hca/soft/qp/xrc.h"
#include "mediator/hca/soft/slice/engine.h"

namespace vrdma::hca::soft {
namespace {

constexpr std::uint32_t async_event_types = (1u << (IBV_EVENT_WQ_FATAL + 1)) - 1;

bool legal(ibv_qp_state from, ibv_qp_state to) noexcept {
    switch (to) {
        case IBV_QPS_RESET:
        case IBV_QPS_ERR:
            return true;
        case IBV_QPS_INIT:
            return from == IBV_QPS_RESET || from == IBV_QPS_INIT;
        case IBV_QPS_RTR:
            return from == IBV_QPS_INIT;
        case IBV_QPS_RTS:
            return from >= IBV_QPS_RTR && from <= IBV_QPS_SQE;
        case IBV_QPS_SQD:
            return from == IBV_QPS_RTS || from == IBV_QPS_SQD;
        default:
            return false;
    }
}

// Copies the fields that the mask names.
void take(vrdma_qp_attr& to, const vrdma_qp_attr& from) noexcept {
    const auto copy = [&](std::uint32_t bit, auto vrdma_qp_attr::*field) {
        if ((from.attr_mask & bit) != 0) {
            to.*field = from.*field;
        }
    };
    copy(IBV_QP_EN_SQD_ASYNC_NOTIFY, &vrdma_qp_attr::sq_drained_notify);
    copy(IBV_QP_ACCESS_FLAGS, &vrdma_qp_attr::access_flags);
    copy(IBV_QP_PKEY_INDEX, &vrdma_qp_attr::pkey_index);
    copy(IBV_QP_PORT, &vrdma_qp_attr::port_num);
    copy(IBV_QP_QKEY, &vrdma_qp_attr::qkey);
    copy(IBV_QP_AV, &vrdma_qp_attr::av);
    copy(IBV_QP_PATH_MTU, &vrdma_qp_attr::path_mtu);
    copy(IBV_QP_TIMEOUT, &vrdma_qp_attr::timeout);
    copy(IBV_QP_RETRY_CNT, &vrdma_qp_attr::retry_cnt);
    copy(IBV_QP_RNR_RETRY, &vrdma_qp_attr::rnr_retry);
    copy(IBV_QP_RQ_PSN, &vrdma_qp_attr::rq_psn);
    copy(IBV_QP_MAX_QP_RD_ATOMIC, &vrdma_qp_attr::max_rd_atomic);
    copy(IBV_QP_MIN_RNR_TIMER, &vrdma_qp_attr::min_rnr_timer);
    copy(IBV_QP_SQ_PSN, &vrdma_qp_attr::sq_psn);
    copy(IBV_QP_MAX_DEST_RD_ATOMIC, &vrdma_qp_attr::max_dest_rd_atomic);
    copy(IBV_QP_DEST_QPN, &vrdma_qp_attr::dest_qpn);
}

void reset(QueuePair& qp) noexcept {
    qp.slice.engine().cross_queue().abandon(qp);
    unbind_windows(qp);
    flush_held(qp);
    qp.attr = {};
    qp.sq.seek(0);
    qp.rq.seek(0);
    qp.sent = 0;
    qp.served_join = 0;
    qp.sq_started = false;
    qp.page_waits = 0;
    qp.established = false;
    qp.answered = false;
    qp.last_wqe_due = false;
    qp.async_events.pending = 0;
}

void hold(QueuePair& qp, std::uint32_t cookie, std::span<const vrdma_sge> sges) noexcept {
    RecvWqe& wqe = *qp.held;
    wqe.name = {cookie, 0};
    wqe.num_sge = static_cast<std::uint32_t>(sges.size());
    wqe.length = 0;
    for (std::size_t i = 0; i < sges.size(); ++i) {
        wqe.sges[i] = {sges[i].addr, sges[i].length, sges[i].lkey};
        wqe.length += sges[i].length;
    }
    qp.holds_receive = true;
    if (qp.type == QpType::xrc_recv) {
        qp.srq->holders.push_back(qp.srq_holder);
    }
}

bool valid_held(const QueuePair& qp, const QpState& state, std::size_t sges) noexcept {
    const bool any = state.holds_receive != 0 || state.last_wqe_due != 0;
    return state.holds_receive <= 1 && state.last_wqe_due <= 1 && (qp.shares_receives() || !any) &&
           sges <= (state.holds_receive != 0 ? qp.recv_limits.max_sge : 0u);
}

// Only the state of an XRC_RECV QP names the SRQ of the WQE that the QP holds.
bool restore_srq(QueuePair& qp, const QpState& state) noexcept {
    if (qp.type != QpType::xrc_recv || state.holds_receive == 0) {
        return state.held_srq == 0;
    }
    return stand_in(qp, Srqn{state.held_srq});
}

// Whether the poller has to know of each receive WQE that is posted.
bool wants_receives(const QueuePair& qp) noexcept {
    return qp.state() == IBV_QPS_ERR ||
           (qp.connection != nullptr && qp.connection->takes_receives_early());
}

// Writes the words that producers read, for a QP that the poller does not look at.
void reset_control(QueuePair& qp) noexcept {
    if (!qp.has_control()) {
        return;
    }
    store_relaxed(qp.control().sq_polled, 0u);
    store_relaxed(qp.control().rq_wanted, wants_receives(qp) ? 1u : 0u);
}

// PSNs start at RTR for receiving, and at RTS for sending.
void start(NetworkConnection& connection, ibv_qp_state from, ibv_qp_state to) noexcept {
    if (to == IBV_QPS_RTR) {
        connection.start_receiving();
    } else if (to == IBV_QPS_RTS && from == IBV_QPS_RTR) {
        connection.start_sending();
    }
}

// Changes the state, and everything that depends on it. The scheduler does not look at the QP
// meanwhile.
void enter(QueuePair& qp, ibv_qp_state state) noexcept {
    Scheduler& scheduler = qp.slice.engine().scheduler();
    scheduler.withdraw(qp);
    if (qp.connection != nullptr && (state == IBV_QPS_RESET || state == IBV_QPS_ERR)) {
        qp.connection->stop();
    }
    if (state == IBV_QPS_RESET) {
        reset(qp);
    }
    if (state == IBV_QPS_ERR && qp.state() != IBV_QPS_ERR) {
        qp.last_wqe_due = qp.shares_receives();
    }
    if (qp.connection != nullptr) {
        start(*qp.connection, qp.state(), state);
    }
    qp.left_to_flush = qp.state() == IBV_QPS_SQE && state == IBV_QPS_RTS ? qp.sq.posted() : 0;
    qp.attr.state = state;
    if (qp.flushes()) {
        qp.sent = 0;
        qp.served_join = 0;
        qp.sq_started = false;
    }
    if (!qp.slice.frozen()) {
        reset_control(qp);
        full_fence();
    }
    scheduler.wake(qp);
    if (state == IBV_QPS_SQD && !qp.sq_started) {
        drained(qp);
    }
}

} // namespace

Result<> modify(QueuePair& qp, const vrdma_qp_attr& attr) noexcept {
    const bool moves = (attr.attr_mask & IBV_QP_STATE) != 0;
    const auto to = moves ? static_cast<ibv_qp_state>(attr.state) : qp.state();
    if ((moves && !legal(qp.state(), to)) ||
        ((attr.attr_mask & IBV_QP_CUR_STATE) != 0 && attr.cur_state != qp.attr.state)) {
        return fail(std::errc::invalid_argument);
    }
    if (qp.connection != nullptr && (attr.attr_mask & IBV_QP_PATH_MTU) != 0 &&
        !qp.connection->fits(attr.path_mtu)) {
        return fail(std::errc::invalid_argument);
    }
    if (to != IBV_QPS_RESET) {
        take(qp.attr, attr);
        if (!qp.sq_started) {
            qp.refill_retries();
        }
    }
    qp.slice.engine().routes().changed();
    if (moves) {
        enter(qp, to);
    }
    return {};
}

vrdma_qp_attr query(const QueuePair& qp) noexcept {
    vrdma_qp_attr attr = qp.attr;
    attr.attr_mask = 0;
    attr.cur_state = attr.state;
    attr.sq_draining = qp.state() == IBV_QPS_SQD && qp.sq_started ? 1 : 0;
    return attr;
}

void enter_error(QueuePair& qp) noexcept {
    if (qp.state() != IBV_QPS_ERR) {
        enter(qp, IBV_QPS_ERR);
    }
}

void enter_error_fatally(QueuePair& qp) noexcept {
    if (qp.state() == IBV_QPS_RESET || qp.state() == IBV_QPS_ERR) {
        return;
    }
    qp.slice.announce(qp, IBV_EVENT_QP_FATAL);
    enter_error(qp);
}

void fail_sending(QueuePair& qp) noexcept {
    if (qp.reliable()) {
        enter_error(qp);
    } else if (qp.state() == IBV_QPS_RTS || qp.state() == IBV_QPS_SQD) {
        enter(qp, IBV_QPS_SQE);
    }
}

void drained(QueuePair& qp) noexcept {
    qp.slice.engine().scheduler().withdraw(qp);
    if (qp.attr.sq_drained_notify != 0) {
        qp.attr.sq_drained_notify = 0;
        qp.slice.announce(qp, IBV_EVENT_SQ_DRAINED);
    }
}

void establish(QueuePair& qp) noexcept {
    if (qp.established) {
        return;
    }
    qp.established = true;
    if (qp.state() == IBV_QPS_RTR) {
        qp.slice.announce(qp, IBV_EVENT_COMM_EST);
    }
}

void freeze(QueuePair& qp) noexcept {
    qp.slice.engine().scheduler().withdraw(qp); // answers may have set timers
    qp.sent = 0;                                // an interrupted message starts again
    if (qp.connection != nullptr) {
        qp.connection->pause();
    }
}

void thaw(QueuePair& qp) noexcept {
    Scheduler& scheduler = qp.slice.engine().scheduler();
    scheduler.withdraw(qp); // a doorbell may have woken it already
    reset_control(qp);
    scheduler.wake(qp);
    if (qp.connection != nullptr) {
        qp.connection->resume();
    }
    full_fence();
}

bool is_connected(const QueuePair& qp) noexcept {
    return qp.connection != nullptr && qp.type != QpType::ud && qp.state() >= IBV_QPS_RTR &&
           qp.state() <= IBV_QPS_SQE;
}

QpState save(const QueuePair& qp) noexcept {
    QpState state{.attr = query(qp),
                  .doorbell_slot = qp.doorbell_slot,
                  .sq_head = qp.sq.head(),
                  .rq_head = qp.rq.head(),
                  .events = qp.async_events.pending,
                  .retries_left = qp.retries_left,
                  .rnr_retries_left = qp.rnr_retries_left,
                  .sq_started = qp.sq_started,
                  .established = qp.established,
                  .last_wqe_due = qp.last_wqe_due,
                  .holds_receive = qp.holds_receive,
                  .connected = is_connected(qp),
                  .answered = qp.answered,
                  .left_to_flush = static_cast<std::uint16_t>(qp.left_to_flush)};
    if (qp.holds_receive) {
        state.held_sges = static_cast<std::uint16_t>(qp.held->num_sge);
        state.held_cookie = qp.held->name.index;
        state.held_srq = qp.type == QpType::xrc_recv ? qp.srq->id.value : 0;
    }
    return state;
}

Result<> restore(QueuePair& qp, const QpState& state, std::span<const vrdma_sge> held_receive) {
    constexpr std::uint8_t most_retries = 7;
    if (state.attr.state > IBV_QPS_ERR || (state.events & ~async_event_types) != 0 ||
        state.retries_left > most_retries || state.rnr_retries_left > most_retries ||
        state.sq_started > 1 || state.established > 1 || state.connected > 1 ||
        state.answered > 1 || state.left_to_flush > qp.sq.depth() ||
        qp.slice.pkey(state.attr.pkey_index) == 0 || !restore_srq(qp, state) ||
        !valid_held(qp, state, held_receive.size())) {
        return fail(std::errc::invalid_argument);
    }
    const auto moved = qp.slice.move_doorbell(qp, state.doorbell_slot);
    if (!moved) {
        return moved;
    }
    qp.attr = state.attr;
    qp.sq.seek(state.sq_head);
    qp.rq.seek(state.rq_head);
    qp.retries_left = state.retries_left;
    qp.rnr_retries_left = state.rnr_retries_left;
    qp.sq_started = state.sq_started != 0;
    qp.left_to_flush = state.left_to_flush;
    qp.established = state.established != 0;
    qp.answered = state.answered != 0;
    qp.expects_peer = qp.established || qp.answered;
    qp.last_wqe_due = state.last_wqe_due != 0;
    if (state.holds_receive != 0) {
        hold(qp, state.held_cookie, held_receive);
    }
    for (std::uint32_t events = state.events; events != 0; events &= events - 1) {
        qp.slice.announce(qp, static_cast<ibv_event_type>(std::countr_zero(events)));
    }
    qp.slice.engine().routes().changed();
    // A QP with a peer on the network needs an uplink. If the uplink is new to the QP, its
    // connection begins without outstanding packets.
    if (state.connected != 0 && !is_connected(qp)) {
        return fail(std::errc::invalid_argument);
    }
    if (is_connected(qp)) {
        qp.connection->start_receiving();
        qp.connection->start_sending();
    }
    return {};
}

} // namespace vrdma::hca::soft
