// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/receive_queue.h"

#include "mediator/hca/soft/engine.h"
#include "mediator/hca/soft/qp_state.h"

namespace vrdma::hca::soft {

bool complete_receive(QueuePair& qp, vrdma_cqe entry, bool solicited) noexcept {
    entry.ctrl |= VRDMA_CQE_RECV;
    entry.qpn = qp.id.value;
    entry.wqe_index = qp.rq.head();
    qp.rq.advance();
    return qp.slice.complete(qp.recv_cq, entry, solicited);
}

void fail_receive(QueuePair& qp, ibv_wc_status status, vrdma_vendor_err reason) noexcept {
    vrdma_cqe entry{};
    entry.ctrl = VRDMA_SET(VRDMA_CQE_STATUS, static_cast<std::uint32_t>(status)) |
                 VRDMA_SET(VRDMA_CQE_OPCODE, std::uint32_t{IBV_WC_RECV});
    entry.vendor_err = reason;
    if (complete_receive(qp, entry, true)) {
        enter_error(qp);
    }
}

bool take_receive(QueuePair& qp, std::uint32_t ctrl, RecvWqe& wqe) noexcept {
    const WqeError error = parse(qp.rq.entry(), ctrl, qp.recv_limits, wqe);
    if (error) {
        fail_receive(qp, static_cast<ibv_wc_status>(error.status), error.reason);
    }
    return !error;
}

} // namespace vrdma::hca::soft
