// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A GID of RoCE is an IP address: an IPv6 address, or an IPv4-mapped one for IPv4 (A17.4.2).
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace vrdma {

using Gid = std::array<std::uint8_t, 16>;

inline constexpr std::array<std::uint8_t, 12> ipv4_prefix{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

constexpr bool is_ipv4(const Gid& gid) noexcept {
    constexpr auto prefix = std::bit_cast<std::array<std::uint32_t, 3>>(ipv4_prefix);
    const auto words = std::bit_cast<std::array<std::uint32_t, 4>>(gid);
    return words[0] == prefix[0] && words[1] == prefix[1] && words[2] == prefix[2];
}

constexpr bool is_multicast(const Gid& gid) noexcept {
    return gid[0] == 0xff || (is_ipv4(gid) && (gid[12] & 0xf0) == 0xe0);
}

} // namespace vrdma
