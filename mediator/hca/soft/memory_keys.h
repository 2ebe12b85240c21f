// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Work requests that change keys (IBA 10.6): memory windows are bound to regions, regions without
// memory get some, and both are invalidated, by their owner or his peer. On the poller's thread.
#pragma once

#include "mediator/hca/soft/queue_pair.h"

namespace vrdma::hca::soft {

// Executes a WQE that concerns nobody but its QP's device.
vrdma_vendor_err change_key(QueuePair& qp, const SendWqe& wqe) noexcept;

// Binds for a WQE, or a restored device: qp is who will own a type 2 window.
vrdma_vendor_err bind_window(MemoryGate& gate, Key key, PdId pd, QueuePair* qp,
                             const vrdma_sq_bind& bind) noexcept;

// Ends what the key stands for, at the wish of the QP's owner or its peer.
vrdma_vendor_err invalidate(QueuePair& qp, Key key) noexcept;

// Nothing is reached through a window any more.
void unbind(MemoryRegion& window) noexcept;
// The type 2 windows of a QP that goes, or has a new peer.
void unbind_windows(QueuePair& qp) noexcept;

} // namespace vrdma::hca::soft
