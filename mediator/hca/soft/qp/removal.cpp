// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/qp/removal.h"

#include "mediator/hca/soft/qp/memory_keys.h"
#include "mediator/hca/soft/qp/xrc.h"
#include "mediator/hca/soft/slice/engine.h"

namespace vrdma::hca::soft {

std::unique_ptr<SharedReceiveQueue> remove(SliceCore& slice, Srqn id) noexcept {
    auto srq = slice.take_out(id); // first, as QPs may answer requests for it as they fail
    if (srq != nullptr) {
        forget_holders(*srq);
    }
    return srq;
}

std::unique_ptr<QueuePair> remove(SliceCore& slice, Qpn id) noexcept {
    if (QueuePair* const qp = slice.qp(id)) {
        slice.engine().cross_queue().abandon(*qp);
        if (qp->connection != nullptr) {
            qp->connection->stop();
        }
        unbind_windows(*qp);
        // Last: as it answers for the last time, the QP may fail, and then has WQEs to flush.
        slice.engine().scheduler().withdraw(*qp);
    }
    return slice.take_out(id);
}

} // namespace vrdma::hca::soft
