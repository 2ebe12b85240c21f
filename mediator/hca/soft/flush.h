// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Completes, unexecuted, what is posted to a QP that failed (IBA 10.3.1.6): the send queue, and in
// the error state the receive queue after it. What is posted to an SRQ is left to other QPs.
#pragma once

#include "mediator/hca/soft/queue_pair.h"
#include "mediator/hca/soft/scheduler.h"

namespace vrdma::hca::soft {

Turn flush(QueuePair& qp) noexcept;

} // namespace vrdma::hca::soft
