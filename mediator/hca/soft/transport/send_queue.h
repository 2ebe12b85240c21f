// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The WQE at the head of a send queue: its payload, its end, and its wait. For requesters.
#pragma once

#include "mediator/hca/soft/memory/span_list.h"
#include "mediator/hca/soft/slice/queue_pair.h"

namespace vrdma::hca::soft {

// These are for the WQE at the head when no earlier message is outstanding. execute_here() executes
// a WQE that no peer sees. succeed() and fail_message() complete the WQE; fail_message() does so in
// error, and the QP fails.
void execute_here(QueuePair& qp, const SendWqe& wqe) noexcept;
void succeed(QueuePair& qp, const Message& message) noexcept;
void fail_message(QueuePair& qp, const Message& message, ibv_wc_status status,
                  vrdma_vendor_err reason) noexcept;

// The fields of a message under way that its completion needs. A transport keeps them with it.
template <typename Outstanding>
Message completed_message(const Outstanding& wqe) noexcept {
    Message message;
    message.opcode = wqe.opcode;
    message.signaled = wqe.signaled;
    message.length = wqe.length;
    return message;
}

// Opens the WQE's payload in this side's memory, from `skip` on, as far as there is room.
vrdma_vendor_err open_payload(QueuePair& qp, const SendWqe& wqe, std::uint64_t skip,
                              SpanList& payload) noexcept;

// The QP continues later with the same piece. wait_for_pages() is for pages that were requested
// already; wait_for_own_pages() also requests the absent pages of the QP's own device.
void wait_for_pages(QueuePair& qp) noexcept;
void wait_for_own_pages(QueuePair& qp) noexcept;

} // namespace vrdma::hca::soft
