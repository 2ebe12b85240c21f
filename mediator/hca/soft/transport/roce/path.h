// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The part of packets below their transport, from the address vector that a guest gave.
#pragma once

#include "mediator/hca/soft/slice/request.h"
#include "mediator/wire/packet.h"

namespace vrdma::hca::soft::roce {

// The path from the slice's own address to the route's target, by the slice's port, and in a class
// that the slice may use. If the target's Ethernet address is all zeros, the guest gave none.
wire::Path make_path(const SliceCore& slice, const Route& route, const vrdma_av& av) noexcept;

// The UDP source port: routers spread flows by it (A17.9.1). It is the same for all packets of a
// QP.
std::uint16_t flow_port(const vrdma_av& av, Qpn from, Qpn to) noexcept;

// The sender and the receiver of a packet that has come by that path. A tag that names no VLAN
// means only a priority.
GidKey source_of(const wire::Path& path) noexcept;
GidKey target_of(const wire::Path& path) noexcept;

// The route of a received packet, with the address vector that the receiver sees.
Route route_of(const wire::Packet& packet, QpType type) noexcept;

} // namespace vrdma::hca::soft::roce
