// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/transport/send_queue.h"

#include <algorithm>

#include "mediator/hca/soft/qp/memory_keys.h"
#include "mediator/hca/soft/qp/qp_state.h"
#include "mediator/hca/soft/qp/send_completion.h"
#include "mediator/hca/soft/slice/engine.h"
#include "mediator/hca/soft/transport/retry.h"

namespace vrdma::hca::soft {
namespace {

// Completes the WQE at the head. Returns false if the CQ has no room.
bool complete(QueuePair& qp, const Message& message, ibv_wc_status status,
              vrdma_vendor_err reason) noexcept {
    const WqeName wqe = qp.sq.retire(qp.sq.head());
    qp.sq.advance();
    qp.sent = 0;
    qp.served_join = 0;
    qp.sq_started = false;
    qp.page_waits = 0;
    const bool silent = status == IBV_WC_SUCCESS && !message.signaled && !qp.signal_all;
    return silent || write_completion(qp, wqe, message, status, reason);
}

} // namespace

void succeed(QueuePair& qp, const Message& message) noexcept {
    count_success(qp, message);
    if (complete(qp, message, IBV_WC_SUCCESS, VRDMA_VERR_NONE) && qp.state() == IBV_QPS_SQD) {
        drained(qp);
    }
}

void fail_message(QueuePair& qp, const Message& message, ibv_wc_status status,
                  vrdma_vendor_err reason) noexcept {
    count_failure(qp, status);
    if (complete(qp, message, status, reason)) {
        fail_sending(qp);
    }
}

void execute_here(QueuePair& qp, const SendWqe& wqe) noexcept {
    const vrdma_vendor_err error = change_key(qp, wqe);
    if (error != VRDMA_VERR_NONE) {
        fail_message(qp, wqe, IBV_WC_MW_BIND_ERR, error);
    } else {
        succeed(qp, wqe);
    }
}

vrdma_vendor_err open_payload(QueuePair& qp, const SendWqe& wqe, std::uint64_t skip,
                              SpanList& payload) noexcept {
    if (!wqe.inline_data.empty()) {
        const std::span rest = wqe.inline_data.subspan(skip);
        payload.add(rest.first(std::min<std::uint64_t>(rest.size(), payload.room())));
        return VRDMA_VERR_NONE;
    }
    const std::uint32_t rights =
        wqe.is_fetch() ? std::uint32_t{IBV_ACCESS_LOCAL_WRITE} : MemoryRegion::local_read;
    return qp.slice.gate().open_list(wqe.list(), qp.pd, rights, skip, payload);
}

// The QP tries the same piece again later. A wait for pages of its own device has no limit.
void wait_for_pages(QueuePair& qp) noexcept {
    qp.slice.engine().scheduler().wait_until(qp, Clock::now() + page_delay(qp.page_waits));
    if (qp.page_waits < reliable_page_waits) {
        ++qp.page_waits;
    }
}

void wait_for_own_pages(QueuePair& qp) noexcept {
    qp.slice.announce_page_faults();
    wait_for_pages(qp);
}

} // namespace vrdma::hca::soft
