// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The responder of a connected QP whose peer is on the network: executes packets in the order
// of their PSNs, and answers (IBA 9.7.4, 9.7.5, 9.8.3). A packet is executed like a piece of a
// message from this host.
#pragma once

#include "mediator/hca/soft/transport/roce/connection.h"
#include "mediator/wire/packet.h"

namespace vrdma::hca::soft::roce {

void receive_request(Connection& connection, const wire::Packet& packet) noexcept;

// Sends the responses and acknowledgements that are due. Returns whether more are due.
bool answer(Connection& connection) noexcept;

// Whether a READ or an atomic of the peer is not completely answered.
bool has_answers(const Connection& connection) noexcept;

// Ends receiving from the peer, and forgets its requests.
void end(Connection& connection) noexcept;

} // namespace vrdma::hca::soft::roce
