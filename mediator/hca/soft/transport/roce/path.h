// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The part of packets below their transport, from the address vector that a guest gave.
#pragma once

#include "mediator/hca/soft/slice/request.h"
#include "mediator/wire/packet.h"

namespace vrdma::hca::soft::roce {

// The path of packets that leave by the slice's port: transport/path.h, and its priority there.
wire::Path make_path(const SliceCore& slice, const Route& route, const vrdma_av& av) noexcept;

// The sender and the receiver of a packet that has come by that path. A tag that names no VLAN
// means only a priority.
GidKey source_of(const wire::Path& path) noexcept;
GidKey target_of(const wire::Path& path) noexcept;

// The route of a received packet, with the address vector that the receiver sees.
Route route_of(const wire::Packet& packet, QpType type) noexcept;

} // namespace vrdma::hca::soft::roce
