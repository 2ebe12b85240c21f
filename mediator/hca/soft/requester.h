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

} // namespace vrdma::hca::soft
