// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/qp/flush.h"

#include <algorithm>

#include "mediator/hca/soft/qp/complete.h"
#include "mediator/hca/soft/qp/receive_queue.h"
#include "mediator/hca/soft/slice/engine.h"

namespace vrdma::hca::soft {
namespace {

// Returns how many of `limit` WQEs it completed.
unsigned flush_queue(QueuePair& qp, WorkQueue& queue, CompletionQueue* cq, std::uint32_t kind,
                     unsigned limit) noexcept {
    unsigned flushed = 0;
    for (; flushed < limit && queue.peek() != 0; ++flushed) {
        vrdma_cqe entry{};
        entry.ctrl = kind | VRDMA_SET(VRDMA_CQE_STATUS, std::uint32_t{IBV_WC_WR_FLUSH_ERR});
        const WqeName wqe = queue.retire(queue.head());
        queue.advance();
        static_cast<void>(complete(qp, *cq, entry, wqe, true)); // a CQ that failed takes none
    }
    return flushed;
}

// WQEs of an SRQ are for other QPs. This QP announces when it has completed all that it took (IBA
// 11.6.3.1).
void flush_shared(QueuePair& qp) noexcept {
    flush_held(qp);
    if (qp.last_wqe_due) {
        qp.last_wqe_due = false;
        qp.slice.announce(qp, IBV_EVENT_QP_LAST_WQE_REACHED);
    }
}

} // namespace

Turn flush(QueuePair& qp) noexcept {
    if (qp.cross_request != nullptr) {
        return Turn::idle; // another poller still uses the buffers; the answer wakes this QP
    }
    const unsigned limit = qp.slice.engine().config().turn_wqes;
    const bool recovers = qp.left_to_flush != 0;
    unsigned flushed =
        flush_queue(qp, qp.sq, qp.send_cq, 0, recovers ? std::min(limit, qp.left_to_flush) : limit);
    if (recovers) { // none left: the guest removed WQEs, which no driver does
        qp.left_to_flush = flushed != 0 ? qp.left_to_flush - flushed : 0;
    }
    if (qp.state() == IBV_QPS_ERR && qp.shares_receives()) {
        flush_shared(qp);
    } else if (qp.state() == IBV_QPS_ERR && flushed < limit) {
        flushed += flush_queue(qp, qp.rq, qp.recv_cq, VRDMA_CQE_RECV, limit - flushed);
    }
    qp.count(VRDMA_COUNTER_FLUSHED_WQES, flushed);
    qp.slice.account().charge(0, flushed);
    return flushed != 0 ? Turn::more : Turn::idle;
}

} // namespace vrdma::hca::soft
