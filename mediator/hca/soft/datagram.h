// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// UD: one datagram from a QP to whatever QP the address handle and the Q_Key lead to.
#pragma once

#include "mediator/hca/soft/request.h"
#include "mediator/hca/soft/slice_core.h"

namespace vrdma::hca::soft {

// no_answer where the datagram is dropped: its sender is not told.
Ack send_datagram(QueuePair& qp, const SendWqe& wqe, const AddressHandle& ah,
                  const SpanList& payload) noexcept;

} // namespace vrdma::hca::soft
