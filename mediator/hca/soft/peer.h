// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Who a connected QP talks to: the QP that its destination GID and QP number lead to, if that one
// is connected back.
#pragma once

#include <optional>

#include "mediator/hca/soft/queue_pair.h"
#include "mediator/hca/soft/request.h"

namespace vrdma::hca::soft {

// As the QP's attributes say. Nothing if its own GID is gone.
std::optional<Route> route_of(const QueuePair& qp) noexcept;

// As far as this side's poller knows.
const Peer& find_peer(QueuePair& qp) noexcept;

// The QP of the slice that listens to messages on that route; nullptr where a packet would find
// nobody. On the slice's poller.
QueuePair* find_listener(const SliceCore& slice, const Route& route) noexcept;

} // namespace vrdma::hca::soft
