// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The peer of a connected QP: the QP that its destination GID and QP number select, if that QP is
// connected back.
#pragma once

#include <optional>

#include "mediator/hca/soft/slice/queue_pair.h"
#include "mediator/hca/soft/slice/request.h"

namespace vrdma::hca::soft {

// The route that the QP's attributes describe. Nothing if its own GID is gone.
std::optional<Route> route_of(const QueuePair& qp) noexcept;

// The peer as far as this side's poller knows it.
const Peer& find_peer(QueuePair& qp) noexcept;

// The QP of the slice that gets the messages on that route. nullptr if a packet would be dropped.
// Called on the slice's poller.
QueuePair* find_listener(const SliceCore& slice, const Route& route) noexcept;

// The answer of a slice that has no such QP. nullptr: no slice has its GID.
Ack answer_without_listener(const SliceCore* slice) noexcept;

} // namespace vrdma::hca::soft
