// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// UD across the network (IBA 9.8.3.2): one packet a message.
#pragma once

#include "mediator/hca/soft/request.h"
#include "mediator/hca/soft/roce/port.h"

namespace vrdma::hca::soft::roce {

// ok: it has left.
Ack send_datagram(Port& port, QueuePair& qp, const Request& request, const Route& route) noexcept;

void receive_datagram(Port& port, const wire::Packet& packet) noexcept;

} // namespace vrdma::hca::soft::roce
