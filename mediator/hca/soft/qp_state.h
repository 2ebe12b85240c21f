// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The states of a queue pair (IBA 10.3.1) and what moving between them does to its queues.
#pragma once

#include "mediator/hca/soft/queue_pair.h"

namespace vrdma::hca::soft {

// EINVAL for an arc that the state machine does not have: the QP may have failed since the verbs
// layer looked.
Result<> modify(QueuePair& qp, const vrdma_qp_attr& attr) noexcept;
vrdma_qp_attr query(const QueuePair& qp) noexcept;

// To ERR: both queues are flushed.
void enter_error(QueuePair& qp) noexcept;
// To ERR where no completion can tell why.
void enter_error_fatally(QueuePair& qp) noexcept;
// A local error of the send queue: RC to ERR, UC and UD to SQE, which flushes the SQ only.
void fail_sending(QueuePair& qp) noexcept;

// The send queue of a QP in SQD has finished what it had begun.
void drained(QueuePair& qp) noexcept;

// The first message since RTR tells that the peer is there.
void establish(QueuePair& qp) noexcept;

// Writes the words that producers read, for a QP that nobody looks at.
void reset_control(QueuePair& qp) noexcept;

// To a peer that may be on the network: it has PSNs.
bool is_connected(const QueuePair& qp) noexcept;

QpState save(const QueuePair& qp) noexcept;
Result<> restore(QueuePair& qp, const QpState& state, std::span<const vrdma_sge> held_receive);

} // namespace vrdma::hca::soft
