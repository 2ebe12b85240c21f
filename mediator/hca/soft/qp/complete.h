// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Writes CQEs.
#pragma once

#include "mediator/hca/soft/slice/queue_pair.h"

namespace vrdma::hca::soft {

// Writes a CQE for a WQE of the QP. Returns false if there is no room for it: the CQ and its QPs
// fail.
[[nodiscard]] bool complete(QueuePair& qp, CompletionQueue& cq, vrdma_cqe entry, const WqeName& wqe,
                            bool solicited) noexcept;

} // namespace vrdma::hca::soft
