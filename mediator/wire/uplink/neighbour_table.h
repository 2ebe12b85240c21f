// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The host's neighbours, as the kernel knows them by ARP and neighbour discovery.
#pragma once

#include <optional>

#include "mediator/wire/packet.h"
#include "mediator/wire/uplink/netlink.h"

namespace vrdma::wire {

struct Neighbour {
    int link_index = 0;
    Gid address{};
    std::optional<Mac> mac; // if one is known, even an old one
    bool confirmed = false; // recently
    bool failed = false;    // nobody has answered
};

// Parses an event or an answer; none if it is not about a neighbour.
std::optional<Neighbour> parse_neighbour(nlmsghdr* message);

// A neighbour that the kernel does not know has no MAC, and has not failed.
Result<Neighbour> read_neighbour(Netlink& netlink, int link_index, const Gid& address);

// Makes the kernel ask the neighbour, as if it had a packet for it.
Result<> ask_for_neighbour(Netlink& netlink, int link_index, const Gid& address);

} // namespace vrdma::wire
