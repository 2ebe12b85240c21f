// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/qp/xrc.h"

#include "mediator/hca/soft/qp/qp_state.h"
#include "mediator/hca/soft/slice/slice_core.h"

namespace vrdma::hca::soft {

bool stand_in(QueuePair& qp, Srqn srqn) noexcept {
    if (qp.holds_receive) {
        return qp.srq->id == srqn;
    }
    SharedReceiveQueue* const srq = qp.slice.srq(srqn);
    if (srq == nullptr || srq->xrcd != qp.xrcd) {
        return false;
    }
    qp.srq = srq;
    qp.recv_cq = srq->cq;
    qp.pd = qp.recv_pd = srq->pd;
    qp.recv_limits = srq->limits;
    return true;
}

void step_back(QueuePair& qp) noexcept {
    if (qp.holds_receive) {
        return;
    }
    qp.srq = nullptr;
    qp.recv_cq = nullptr;
    qp.pd = qp.recv_pd = {};
    qp.recv_limits = {};
}

void forget_holders(SharedReceiveQueue& srq) noexcept {
    while (SrqHolder* const holder = srq.holders.pop_front()) {
        QueuePair& qp = *holder->qp;
        qp.holds_receive = false;
        step_back(qp);
        enter_error_fatally(qp);
    }
}

} // namespace vrdma::hca::soft
