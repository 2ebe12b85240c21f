// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Takes what a peer answers, and completes the WQEs that it has acknowledged (IBA 9.7.4.2, 9.7.5).
#pragma once

#include "mediator/hca/soft/transport/roce/connection.h"
#include "mediator/wire/packet.h"

namespace vrdma::hca::soft::roce {

// Takes an acknowledgement, or a response to a READ or an atomic.
void receive_response(Connection& connection, const wire::Packet& packet) noexcept;

} // namespace vrdma::hca::soft::roce
