// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/qp/complete.h"

#include "mediator/hca/soft/qp/qp_state.h"
#include "mediator/hca/soft/slice/engine.h"

namespace vrdma::hca::soft {
namespace {

// The CQ takes no more entries (IBA 11.6.3.2), so none of its QPs can continue.
void end(SliceCore& slice, CompletionQueue& cq) noexcept {
    slice.count(VRDMA_COUNTER_CQ_OVERRUNS);
    slice.announce_overrun(cq);
    for (CqMember* member = cq.members.front(); member != nullptr;
         member = cq.members.after(*member)) {
        enter_error_fatally(*member->qp);
    }
}

} // namespace

bool complete(QueuePair& qp, CompletionQueue& cq, vrdma_cqe entry, const WqeName& wqe,
              bool solicited) noexcept {
    SliceCore& slice = qp.slice;
    if (cq.failed()) {
        return false;
    }
    entry.qpn = qp.id.value;
    entry.wqe_index = wqe.index;
    const bool pushed = cq.format() == QueueFormat::vrdma
                            ? cq.push(entry, solicited, cq.timestamped() ? slice.clock() : 0)
                            : cq.push(entry, solicited, PvrdmaNames{wqe.wr_id, qp.handle});
    if (!pushed) {
        end(slice, cq);
        return false;
    }
    slice.engine().events().pushed(cq);
    return true;
}

} // namespace vrdma::hca::soft
