// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Writes CQEs.
#pragma once

#include "mediator/hca/soft/slice/slice_core.h"

namespace vrdma::hca::soft {

// Writes a CQE. Returns false if there is no room for it: the CQ and its QPs fail.
[[nodiscard]] bool complete(SliceCore& slice, CompletionQueue& cq, const vrdma_cqe& entry,
                            bool solicited) noexcept;

} // namespace vrdma::hca::soft
