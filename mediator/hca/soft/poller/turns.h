// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The turn of a QP that has the poller's attention.
#pragma once

#include "mediator/hca/soft/slice/queue_pair.h"
#include "mediator/hca/soft/slice/turn.h"

namespace vrdma::hca::soft {

// Sends messages: to this host's slices, or to the network. That is decided once per turn.
Turn send(QueuePair& qp) noexcept;
// The same. The WQEs of a QP that has failed are flushed.
Turn take_turn(QueuePair& qp) noexcept;

} // namespace vrdma::hca::soft
