// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The responder's work for a request, which is the same for each transport. It executes one piece
// of a message against this side's receive queue and memory, and answers. It keeps nothing between
// pieces, so a message can stop anywhere and start again: the receive WQE stays at the head until
// the last piece has arrived.
#pragma once

#include "mediator/hca/soft/slice/queue_pair.h"
#include "mediator/hca/soft/slice/request.h"

namespace vrdma::hca::soft {

Ack execute(QueuePair& qp, const Request& request) noexcept;

// The answer to all requests for a frozen slice: its peers wait for at most `rest` (retry.h). Later
// they have lost what they sent.
Ack answer_of_frozen(const SliceCore& slice, Clock::duration rest) noexcept;

// Whether the peer on the network may be told that this side is not ready, and waits without end
// then. Its number of RNR retries is not known, and programs set the same one on both sides.
bool peer_waits(const QueuePair& qp) noexcept;

// Whether a READ would be executed. The caller answers it later, piece by piece.
Ack check_read(QueuePair& qp, const Message& message) noexcept;

// Whether a READ that was executed can be executed again. The program may have invalidated the
// memory, because its peer has the answer. So nothing fails then.
bool can_read_again(QueuePair& qp, const Message& message) noexcept;

// Refuses a request that no QP supports, or that is not well-formed.
void refuse_request(QueuePair& qp) noexcept;

} // namespace vrdma::hca::soft
