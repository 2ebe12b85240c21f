// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Where the host's routing tables send a packet that has to leave by one interface.
#pragma once

#include "mediator/wire/packet.h"
#include "mediator/wire/uplink/netlink.h"

namespace vrdma::wire {

// The interface that has the addresses of a link: the bridge, for one that is a bridge's port.
int addressed_link(Netlink& netlink, int link_index);

// The neighbour that gets the packet: a router or the target itself. The source need not be an
// address of the host.
Result<Gid> next_hop(Netlink& netlink, int link_index, const Gid& source, const Gid& target);

} // namespace vrdma::wire
