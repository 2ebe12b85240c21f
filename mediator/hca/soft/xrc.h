// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// XRC_RECV QPs (IBA A14). They have neither a PD nor queues of their own: each request names an
// SRQ, and while it is executed the QP stands in for that SRQ's owner.
#pragma once

#include "mediator/hca/soft/queue_pair.h"

namespace vrdma::hca::soft {

// From here on the QP's keys, receive WQEs and completions are those of the SRQ. False where there
// is no such SRQ in the QP's domain, or a message to another one has not ended.
bool stand_in(QueuePair& qp, Srqn srqn) noexcept;

// The request is executed. The QP stays with the SRQ while it holds one of its WQEs.
void step_back(QueuePair& qp) noexcept;

// The SRQ goes: the messages whose WQEs are out cannot end.
void forget_holders(SharedReceiveQueue& srq) noexcept;

} // namespace vrdma::hca::soft
