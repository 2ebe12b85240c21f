// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Who a device is on the network, and what it may be there: its administrator says so,
// never its guest.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mediator/base/gid.h"
#include "mediator/base/result.h"
#include "mediator/hca/hca.h"
#include "mediator/verbs/port_speed.h"
#include "vrdma/device.h"

namespace vrdma::verbs {

using vrdma::Gid;
using Mac = std::array<std::uint8_t, 6>;

// Locally administered, and the same each time that a device of this name is made.
Mac derived_mac(std::span<const std::uint8_t> name);

Gid link_local(const Mac& mac); // fe80::/64 with the modified EUI-64

// Addresses that a device may use, IPv4 as IPv4-mapped IPv6.
struct Prefix {
    Gid address{};
    unsigned bits = 0;

    bool contains(const Gid& gid) const;
};

// "10.0.0.5/32,fd00::/64"; without "/n", one address.
Result<std::vector<Prefix>> parse_prefixes(std::string_view text);

using Vlans = std::bitset<VRDMA_MAX_VLAN + 1>;

// Who a device is on the network, and what its administrator lets it do there. Without an uplink
// and without prefixes any address goes, as nobody else is there to have it; with an uplink none
// does but the link-local one.
struct Identity {
    Mac mac{};
    std::vector<Prefix> prefixes;
    bool prefixes_valid = true;            // else only the link-local address goes
    std::string uplink{};                  // by which it has peers elsewhere, or none
    Vlans vlans{};                         // of the uplink's; without an uplink any goes
    hca::TrafficClasses traffic_classes{}; // that its packets may have there, beside 0
    hca::ServiceLevels service_levels{};   // the same
    PKeys pkeys{default_pkey};
    PortSpeed port_speed = as_memory; // where its uplink says none

    bool may_have_any_address() const;
    Result<> may_use(const Gid& gid, std::uint16_t vlan = 0) const;
};

} // namespace vrdma::verbs
