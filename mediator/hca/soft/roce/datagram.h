// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// UD across the network (IBA 9.8.3.2): one packet a message.
#pragma once

#include "mediator/hca/soft/request.h"
#include "mediator/hca/soft/roce/port.h"

namespace vrdma::hca::soft::roce {

// ok: it has left.
Ack send_datagram(Port& port, QueuePair& qp, const Request& request, const Route& route) noexcept;

// False if it is to a group, and there are slices that it has not gone to when the port's turn is
// over. `served_join`: that of the slice which had it last; 0 at first.
bool receive_datagram(Port& port, const wire::Packet& packet, std::uint64_t& served_join) noexcept;

} // namespace vrdma::hca::soft::roce
