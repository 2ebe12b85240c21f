// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// UD: delivers one datagram to the QP of a slice that its QP number and Q_Key select.
#pragma once

#include "mediator/hca/soft/slice/request.h"
#include "mediator/hca/soft/slice/slice_core.h"

namespace vrdma::hca::soft {

// The datagram's route, from its address vector. Nothing if this side's GID is gone.
std::optional<Route> route_of(const QueuePair& qp, const SendWqe& wqe, const vrdma_av& av) noexcept;

// Called on the slice's poller. Returns no_answer if the datagram is dropped: its sender is not
// told.
Ack receive_datagram(SliceCore& slice, const Route& route, const Request& request) noexcept;
// The same for all QPs of the slice that are attached to the group.
Ack receive_multicast(SliceCore& slice, const Route& route, const Request& request) noexcept;

} // namespace vrdma::hca::soft
