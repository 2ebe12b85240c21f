// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The sending side of a QP: takes WQEs from the send queue in order, hands each message piece by
// piece to the responder (RC, UC) or the datagram path (UD), and completes it by the answer.
#pragma once

#include "mediator/hca/soft/queue_pair.h"
#include "mediator/hca/soft/request.h"
#include "mediator/hca/soft/scheduler.h"

namespace vrdma::hca::soft {

Turn send_messages(QueuePair& qp) noexcept;

// The answer to a piece has come.
void conclude(QueuePair& qp, const Request& request, Ack ack) noexcept;

// For a WQE at the head that nothing is under way before: executes what no peer sees, or completes
// it; in error, so that the QP fails.
void execute_here(QueuePair& qp, const SendWqe& wqe) noexcept;
void succeed(QueuePair& qp, const Message& message) noexcept;
void fail_message(QueuePair& qp, const Message& message, ibv_wc_status status,
                  vrdma_vendor_err reason) noexcept;

// Bytes of the WQE's payload in this side's memory from `skip` on, as many as there is room for.
vrdma_vendor_err open_payload(QueuePair& qp, const SendWqe& wqe, std::uint64_t skip,
                              SpanList& payload) noexcept;

// The QP goes on later, with the same piece: what that takes has been asked for; pages of its own.
void wait_for_pages(QueuePair& qp) noexcept;
void wait_for_own_pages(QueuePair& qp) noexcept;

} // namespace vrdma::hca::soft
