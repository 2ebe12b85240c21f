// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Receive WQEs, for connected QPs and datagrams alike, of the QP's own queue or its SRQ.
//
// The WQE of a message that is not complete stays at the head of the QP's own queue. Out of an SRQ,
// where others wait for the next one, the QP takes it, and holds it until it completes.
#pragma once

#include "mediator/hca/soft/queue_pair.h"

namespace vrdma::hca::soft {

enum class Receive : std::uint8_t {
    ready,
    none, // nothing is posted
    bad,  // what is there is not a WQE: it completed in error, and the QP failed
};

// Whether a message finds a WQE.
bool has_receive(const QueuePair& qp) noexcept;

// Reads the WQE for the next message, or for the rest of one.
Receive next_receive(QueuePair& qp, RecvWqe& wqe) noexcept;

// The message in the WQE goes on.
void hold_receive(QueuePair& qp, const RecvWqe& wqe) noexcept;

// The WQE is done. Returns false if its completion found no room.
bool complete_receive(QueuePair& qp, const RecvWqe& wqe, vrdma_cqe entry, bool solicited) noexcept;

// The WQE cannot be used: it completes in error and the QP fails (IBA 9.9.3, class A).
void fail_receive(QueuePair& qp, const RecvWqe& wqe, ibv_wc_status status,
                  vrdma_vendor_err reason) noexcept;

// A WQE that the QP holds completes as flushed, whether or not the QP was in its middle. Of a
// frozen slice it is lost.
void flush_held(QueuePair& qp) noexcept;

} // namespace vrdma::hca::soft
