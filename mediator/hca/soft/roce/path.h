// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// What packets carry below their transport, by the address vector that a guest gave.
#pragma once

#include "mediator/hca/soft/request.h"
#include "mediator/wire/packet.h"

namespace vrdma::hca::soft::roce {

// From the slice's own address to the route's target, in a class that the slice may use, and by its
// port. All zeros in the target's Ethernet address: the guest gave none.
wire::Path make_path(const SliceCore& slice, const Route& route, const vrdma_av& av) noexcept;

// The UDP source port: routers spread flows by it (A17.9.1). The same for all packets of a QP.
std::uint16_t flow_port(const vrdma_av& av, Qpn from, Qpn to) noexcept;

// Whose a packet is that has come by that path. A tag that names no VLAN says a priority only.
GidKey source_of(const wire::Path& path) noexcept;
GidKey target_of(const wire::Path& path) noexcept;

// The route of a packet that has come, and its address vector as a receiver sees it.
Route route_of(const wire::Packet& packet, QpType type) noexcept;

} // namespace vrdma::hca::soft::roce
