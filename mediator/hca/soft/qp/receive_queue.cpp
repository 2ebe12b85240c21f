// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/qp/receive_queue.h"

#include "mediator/hca/soft/qp/complete.h"
#include "mediator/hca/soft/qp/qp_state.h"
#include "mediator/hca/soft/qp/xrc.h"
#include "mediator/hca/soft/slice/engine.h"

namespace vrdma::hca::soft {

bool has_receive(const QueuePair& qp) noexcept {
    return qp.holds_receive || qp.receives().peek() != 0;
}

Receive next_receive(QueuePair& qp, RecvWqe& wqe) noexcept {
    if (qp.holds_receive) {
        wqe = *qp.held;
        return Receive::ready;
    }
    const WorkQueue& queue = qp.receives();
    const std::uint32_t ctrl = queue.peek();
    if (ctrl == 0) {
        return Receive::none;
    }
    const WqeError error = parse(queue.entry(), ctrl, qp.recv_limits, wqe);
    if (qp.srq == nullptr) {
        wqe.name.index = queue.head();
    }
    if (error) {
        fail_receive(qp, wqe, static_cast<ibv_wc_status>(error.status), error.reason);
        return Receive::bad;
    }
    return Receive::ready;
}

void hold_receive(QueuePair& qp, const RecvWqe& wqe) noexcept {
    if (qp.srq == nullptr || qp.holds_receive) {
        return;
    }
    *qp.held = wqe;
    qp.holds_receive = true;
    if (qp.type == QpType::xrc_recv) {
        qp.srq->holders.push_back(qp.srq_holder);
    }
    qp.srq->take();
}

namespace {

void let_go(QueuePair& qp) noexcept {
    qp.holds_receive = false;
    qp.srq->holders.remove(qp.srq_holder);
}

} // namespace

bool complete_receive(QueuePair& qp, const RecvWqe& wqe, vrdma_cqe entry, bool solicited) noexcept {
    entry.ctrl |= VRDMA_CQE_RECV;
    if (qp.type == QpType::xrc_recv) {
        entry.ctrl |= VRDMA_CQE_XRC;
        entry.srqn = qp.srq->id.value;
    }
    if (qp.holds_receive) {
        let_go(qp);
    } else if (qp.srq != nullptr) {
        qp.srq->take();
    } else {
        qp.rq.retire(qp.rq.head());
        qp.rq.advance();
    }
    return complete(qp, *qp.recv_cq, entry, wqe.name, solicited);
}

void fail_receive(QueuePair& qp, const RecvWqe& wqe, ibv_wc_status status,
                  vrdma_vendor_err reason) noexcept {
    vrdma_cqe entry{};
    entry.ctrl = VRDMA_SET(VRDMA_CQE_STATUS, static_cast<std::uint32_t>(status)) |
                 VRDMA_SET(VRDMA_CQE_OPCODE, std::uint32_t{IBV_WC_RECV});
    entry.vendor_err = reason;
    qp.count(VRDMA_COUNTER_LOCAL_ERRORS);
    if (complete_receive(qp, wqe, entry, true)) {
        enter_error(qp);
    }
}

void flush_held(QueuePair& qp) noexcept {
    if (!qp.holds_receive) {
        return;
    }
    if (qp.slice.frozen()) {
        let_go(qp);
    } else {
        vrdma_cqe entry{};
        entry.ctrl = VRDMA_SET(VRDMA_CQE_STATUS, std::uint32_t{IBV_WC_WR_FLUSH_ERR});
        static_cast<void>(complete_receive(qp, *qp.held, entry, true)); // a failed CQ takes none
    }
    if (qp.type == QpType::xrc_recv) {
        step_back(qp);
    }
}

} // namespace vrdma::hca::soft
