// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The requester whose peers are on this host: takes WQEs from the send queue in order,
// hands each message piece by piece to the responder (RC, UC) or the datagram path (UD), and
// completes it when the answer has come.
#pragma once

#include "mediator/hca/soft/slice/request.h"
#include "mediator/hca/soft/slice/turn.h"

namespace vrdma::hca::soft {

Turn send_messages(QueuePair& qp) noexcept;

// The answer to a piece has come.
void conclude(QueuePair& qp, const Request& request, Ack ack) noexcept;
// The same if the QP's slice has a sniffer. The message went by that route.
void conclude_sniffed(QueuePair& qp, const Request& request, const Route& route, Ack ack) noexcept;

} // namespace vrdma::hca::soft
