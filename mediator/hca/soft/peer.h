// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Who a connected QP talks to: the QP that its destination GID and QP number lead to, if that one
// is connected back.
#pragma once

#include "mediator/hca/soft/queue_pair.h"

namespace vrdma::hca::soft {

// nullptr where a packet would find nobody.
QueuePair* find_peer(QueuePair& qp) noexcept;

} // namespace vrdma::hca::soft
