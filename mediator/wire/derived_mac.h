// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// MACs that follow from an address.
#pragma once

#include <optional>

#include "mediator/wire/packet.h"

namespace vrdma::wire {

constexpr bool is_group(const Mac& mac) noexcept {
    return (mac[0] & 1) != 0;
}

// The MAC of a multicast group (RFC 1112, 6.4, and RFC 2464, 7), or of a link-local address that
// was made of a MAC (RFC 4291, appendix A), as RoCE v1's are. Other MACs have to be asked for.
std::optional<Mac> derived_mac(const Gid& gid);

} // namespace vrdma::wire
