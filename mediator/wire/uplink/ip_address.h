// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// GIDs as addresses of the kernel.
#pragma once

#include <sys/socket.h>

#include <algorithm>
#include <optional>
#include <span>

#include "mediator/wire/packet.h"

namespace vrdma::wire {

inline std::uint8_t family_of(const Gid& gid) {
    return is_ipv4(gid) ? AF_INET : AF_INET6;
}

// The address itself, of 4 or 16 bytes.
inline std::span<const std::uint8_t> address_of(const Gid& gid) {
    return std::span{gid}.subspan(is_ipv4(gid) ? ipv4_prefix.size() : 0);
}

// Only these two sizes are addresses.
inline std::optional<Gid> gid_of(std::span<const std::uint8_t> address) {
    Gid gid{};
    if (address.size() != 4 && address.size() != gid.size()) {
        return std::nullopt;
    }
    if (address.size() == 4) {
        std::copy(ipv4_prefix.begin(), ipv4_prefix.end(), gid.begin());
    }
    std::copy(address.begin(), address.end(), gid.end() - static_cast<long>(address.size()));
    return gid;
}

} // namespace vrdma::wire
