// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The sending side of a connected QP whose peer is on the network: makes packets of WQEs, and
// completes the WQEs when the peer has answered (IBA 9.7.3 to 9.7.6, 9.8.2). After a loss, it
// retransmits from the oldest packet that is not acknowledged (go-back-N).
#pragma once

#include "mediator/hca/soft/roce/connection.h"
#include "mediator/hca/soft/scheduler.h"
#include "mediator/wire/packet.h"

namespace vrdma::hca::soft::roce {

Turn send_packets(QueuePair& qp) noexcept;

// Takes an acknowledgement, or a response to a READ or an atomic.
void receive_response(Connection& connection, const wire::Packet& packet) noexcept;

// The connection's timer has expired. It may have been set too early.
void expire(Connection& connection, Clock::time_point now) noexcept;

// Makes the oldest packet that is not acknowledged the next one.
void go_back(Connection& connection) noexcept;

} // namespace vrdma::hca::soft::roce
