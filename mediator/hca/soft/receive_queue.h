// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Completing receive WQEs, for connected QPs and datagrams alike.
#pragma once

#include "mediator/hca/soft/queue_pair.h"

namespace vrdma::hca::soft {

// The WQE at the head of the RQ is done. Returns false if its completion found no room.
bool complete_receive(QueuePair& qp, vrdma_cqe entry, bool solicited) noexcept;

// The WQE at the head cannot be used: it completes in error and the QP fails (IBA 9.9.3, class A).
void fail_receive(QueuePair& qp, ibv_wc_status status, vrdma_vendor_err reason) noexcept;

// Reads the WQE at the head; its first word was `ctrl`. If that is not a WQE the QP fails.
bool take_receive(QueuePair& qp, std::uint32_t ctrl, RecvWqe& wqe) noexcept;

} // namespace vrdma::hca::soft
