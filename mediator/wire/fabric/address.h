// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The address at which others connect to us by libfabric. This code does not need libfabric.
#pragma once

#include <optional>
#include <string>

namespace vrdma::wire::fabric {

// An address that needs no name service: "10.0.0.1:7471" or "[fd00::1]:7471".
struct Address {
    std::string host;
    std::string service;

    bool operator==(const Address&) const = default;
};
std::optional<Address> parse_address(const std::string& text);

} // namespace vrdma::wire::fabric
