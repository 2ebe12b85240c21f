// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Completes the WQEs of a failed QP without executing them (IBA 10.3.1.6): those of the send queue
// and, in the error state, those of the receive queue after them. WQEs of an SRQ are left to other
// QPs.
#pragma once

#include "mediator/hca/soft/slice/queue_pair.h"
#include "mediator/hca/soft/slice/turn.h"

namespace vrdma::hca::soft {

Turn flush(QueuePair& qp) noexcept;

} // namespace vrdma::hca::soft
