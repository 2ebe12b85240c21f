// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Work requests that change keys (IBA 10.6). They bind memory windows to regions, give memory to
// regions without any, and invalidate both, for the owner or its peer. Called on the poller's
// thread.
#pragma once

#include "mediator/hca/soft/slice/queue_pair.h"

namespace vrdma::hca::soft {

// Executes a WQE that concerns only its QP's device.
vrdma_vendor_err change_key(QueuePair& qp, const SendWqe& wqe) noexcept;

// Binds a window, for a WQE or a restored device. A type 2 window will be owned by `qp`.
vrdma_vendor_err bind_window(MemoryGate& gate, Key key, PdId pd, QueuePair* qp,
                             const vrdma_sq_bind& bind) noexcept;

// Invalidates the key, at the request of the QP's owner or its peer.
vrdma_vendor_err invalidate(QueuePair& qp, Key key) noexcept;

// After it returns, the window gives no access.
void unbind(MemoryRegion& window) noexcept;
// Unbinds the type 2 windows of a QP that is destroyed, or has a new peer.
void unbind_windows(QueuePair& qp) noexcept;

} // namespace vrdma::hca::soft
