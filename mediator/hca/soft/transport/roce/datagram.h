// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// UD across the network (IBA 9.8.3.2): one packet per message.
#pragma once

#include "mediator/hca/soft/slice/request.h"
#include "mediator/hca/soft/transport/roce/port.h"

namespace vrdma::hca::soft::roce {

// ok: the datagram was sent.
Ack send_datagram(Port& port, QueuePair& qp, const Request& request, const Route& route) noexcept;

// Returns false if the datagram is to a group, and the port's turn ends before all its slices had
// it. `served_join` is the join of the slice that had it last; 0 at first.
bool receive_datagram(Port& port, const wire::Packet& packet, std::uint64_t& served_join) noexcept;

// The slice to which a datagram goes that is to no group, or nullptr.
SliceCore* find_receiver(const Port& port, const wire::Packet& packet) noexcept;

} // namespace vrdma::hca::soft::roce
