// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// WQEs and CQEs of VMware's device, from and into those of the engine.
#pragma once

#include "mediator/hca/soft/queues/wqe.h"
#include "vrdma/pvrdma/queue.h"

namespace vrdma::hca::soft::pvrdma {

// `entry` is a ring entry that its producer has posted. All fields that an opcode does not use may
// have any value, because the provider leaves them as they were.
WqeError parse(std::byte* entry, const WqeLimits& limits, SendWqe& wqe) noexcept;
WqeError parse(std::byte* entry, const WqeLimits& limits, RecvWqe& wqe) noexcept;

// `qp` is the handle of the QP.
pvrdma_cqe to_cqe(const vrdma_cqe& entry, std::uint64_t wr_id, std::uint32_t qp) noexcept;

} // namespace vrdma::hca::soft::pvrdma
