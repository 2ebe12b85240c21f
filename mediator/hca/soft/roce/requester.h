// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The sending side of a connected QP whose peer is on the network: makes packets of WQEs, and
// completes these by what the peer answers (IBA 9.7.3 to 9.7.6, 9.8.2). What gets lost is sent
// again from the oldest packet on that was not acknowledged.
#pragma once

#include "mediator/hca/soft/roce/connection.h"
#include "mediator/hca/soft/scheduler.h"
#include "mediator/wire/packet.h"

namespace vrdma::hca::soft::roce {

Turn send_packets(QueuePair& qp) noexcept;

// An acknowledgement, or a response to a READ or an atomic.
void receive_response(Connection& connection, const wire::Packet& packet) noexcept;

// The deadline has passed, or it is too early.
void expire(Connection& connection, Clock::time_point now) noexcept;

// The next packet is the oldest that was not acknowledged.
void go_back(Connection& connection) noexcept;

} // namespace vrdma::hca::soft::roce
