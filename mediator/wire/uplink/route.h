// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The host's routes for a packet that has to leave by one interface.
#pragma once

#include <linux/rtnetlink.h>

#include <optional>

#include "mediator/wire/packet.h"
#include "mediator/wire/uplink/netlink.h"

namespace vrdma::wire {

struct Route {
    int link_index = 0;
    std::uint8_t type = RTN_UNSPEC;
    std::optional<Gid> gateway;
};

// Parse the kernel's answers: none if it is not a route, 0 if the link is not a bridge's port.
std::optional<Route> parse_route(nlmsghdr* message);
int parse_bridge(nlmsghdr* message);

// The interface that has the addresses of a link: the bridge, if the link is a bridge's port.
int addressed_link(Netlink& netlink, int link_index);

// The neighbour that gets the packet: a router or the target itself. The source need not be an
// address of the host.
Result<Gid> next_hop(Netlink& netlink, int link_index, const Gid& source, const Gid& target);

} // namespace vrdma::wire
