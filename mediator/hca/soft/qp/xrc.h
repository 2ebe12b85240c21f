// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// XRC_RECV QPs (IBA A14). They have neither a PD nor queues of their own: each request names an
// SRQ. While the request is executed, the QP stands in for that SRQ's owner.
#pragma once

#include "mediator/hca/soft/slice/queue_pair.h"

namespace vrdma::hca::soft {

// From here on, the QP's keys, receive WQEs and completions are those of the SRQ. Returns false if
// there is no such SRQ in the QP's domain, or if a message to another SRQ has not ended.
bool stand_in(QueuePair& qp, Srqn srqn) noexcept;

// The request has been executed. The QP stays with the SRQ while it holds one of its WQEs.
void step_back(QueuePair& qp) noexcept;

// The SRQ is destroyed. Messages that hold its WQEs cannot end, so their QPs fail.
void forget_holders(SharedReceiveQueue& srq) noexcept;

} // namespace vrdma::hca::soft
