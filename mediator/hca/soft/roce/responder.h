// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The receiving side of a connected QP whose peer is on the network: executes packets in the order
// of their PSNs, and answers (IBA 9.7.4, 9.7.5, 9.8.3). What a packet asks for is executed as a
// piece of a message from this host would be.
#pragma once

#include "mediator/hca/soft/roce/connection.h"
#include "mediator/wire/packet.h"

namespace vrdma::hca::soft::roce {

void receive_request(Connection& connection, const wire::Packet& packet) noexcept;

// Sends what is due: responses and acknowledgements. Returns whether something still is.
bool answer(Connection& connection) noexcept;

// Whether the peer asked for something whose answer is not out.
bool has_answers(const Connection& connection) noexcept;

// Nothing comes from the peer any more.
void end(Connection& connection) noexcept;

} // namespace vrdma::hca::soft::roce
