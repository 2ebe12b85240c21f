// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The states of a queue pair (IBA 10.3.1) and the effects of their transitions on its queues.
#pragma once

#include "mediator/hca/soft/slice/queue_pair.h"

namespace vrdma::hca::soft {

// EINVAL for a transition that the state machine does not have: the QP may have failed since the
// verbs layer looked.
Result<> modify(QueuePair& qp, const vrdma_qp_attr& attr) noexcept;
vrdma_qp_attr query(const QueuePair& qp) noexcept;

// Enters ERR: both queues are flushed.
void enter_error(QueuePair& qp) noexcept;
// Enters ERR and announces IBV_EVENT_QP_FATAL, because no completion can report the reason.
void enter_error_fatally(QueuePair& qp) noexcept;
// A local error of the send queue: RC to ERR, UC and UD to SQE, which flushes the SQ only.
void fail_sending(QueuePair& qp) noexcept;

// The send queue of a QP in SQD has finished the messages that it had begun.
void drained(QueuePair& qp) noexcept;

// A message has arrived. The first one since RTR shows that the connection is established.
void establish(QueuePair& qp) noexcept;

// The slice is frozen, or thawed again. The poller then looks at the QP once, to find what was
// posted or rung meanwhile.
void freeze(QueuePair& qp) noexcept;
void thaw(QueuePair& qp) noexcept;

// Whether the QP has PSNs, because its peer may be on the network.
bool is_connected(const QueuePair& qp) noexcept;

QpState save(const QueuePair& qp) noexcept;
Result<> restore(QueuePair& qp, const QpState& state, std::span<const vrdma_sge> held_receive);

} // namespace vrdma::hca::soft
