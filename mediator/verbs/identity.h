// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The identity of a device on the network, and what it may do there. Its administrator decides
// that, never its guest.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mediator/base/gid.h"
#include "mediator/base/pkey.h"
#include "mediator/base/result.h"
#include "mediator/hca/share.h"
#include "mediator/verbs/port_speed.h"
#include "vrdma/device.h"

namespace vrdma::verbs {

using vrdma::Gid;
using Mac = std::array<std::uint8_t, 6>;

// Returns a locally administered MAC, which is the same each time for the same name.
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

// The administrator's settings for a device. If there are no prefixes, a device without an uplink
// may have any address, because no other host is there that could have it. A device with an uplink
// may then have only its link-local address.
struct Identity {
    Mac mac{};
    std::vector<Prefix> prefixes;
    bool prefixes_valid = true;            // if not, only the link-local address is allowed
    std::string uplink{};                  // to peers on other hosts, or none
    Vlans vlans{};                         // of the uplink; without an uplink, all are allowed
    hca::TrafficClasses traffic_classes{}; // that its packets may have there, besides 0
    hca::ServiceLevels service_levels{};   // likewise
    PKeys pkeys{default_pkey};
    PortSpeed port_speed = as_memory; // if its uplink reports none

    bool may_have_any_address() const;
    Result<> may_use(const Gid& gid, std::uint16_t vlan = 0) const;
};

} // namespace vrdma::verbs
