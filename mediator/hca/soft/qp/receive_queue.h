// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Receive WQEs, for connected QPs and datagrams alike, of the QP's own queue or its SRQ.
//
// The WQE of an incomplete message stays at the head of the QP's own queue. The QP takes such a WQE
// out of an SRQ, because other QPs wait for the next one, and holds it until it completes.
#pragma once

#include "mediator/hca/soft/slice/queue_pair.h"

namespace vrdma::hca::soft {

enum class Receive : std::uint8_t {
    ready,
    none, // nothing is posted
    bad,  // the WQE is invalid: it completed in error, and the QP failed
};

// Whether there is a WQE for a message.
bool has_receive(const QueuePair& qp) noexcept;

// Reads the WQE for the next message, or for the rest of one.
Receive next_receive(QueuePair& qp, RecvWqe& wqe) noexcept;

// The WQE's message is not complete: the QP keeps the WQE.
void hold_receive(QueuePair& qp, const RecvWqe& wqe) noexcept;

// Completes the WQE. Returns false if the CQ has no room.
bool complete_receive(QueuePair& qp, const RecvWqe& wqe, vrdma_cqe entry, bool solicited) noexcept;

// The WQE cannot be used: it completes in error and the QP fails (IBA 9.9.3, class A).
void fail_receive(QueuePair& qp, const RecvWqe& wqe, ibv_wc_status status,
                  vrdma_vendor_err reason) noexcept;

// Completes, as flushed, the WQE that the QP holds, even in the middle of its message. In a frozen
// slice, the WQE is lost.
void flush_held(QueuePair& qp) noexcept;

} // namespace vrdma::hca::soft
