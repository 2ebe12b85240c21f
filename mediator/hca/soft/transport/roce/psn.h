// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Packet sequence numbers: 24 bits that wrap (IBA 9.7.1). Two PSNs that are compared are at most
// half of all PSNs apart. The longest READ takes exactly that half at the smallest MTU.
#pragma once

#include <cstdint>

namespace vrdma::hca::soft::roce {

using Psn = std::uint32_t;

inline constexpr Psn psn_mask = 0xffffff;

constexpr Psn add(Psn psn, std::uint32_t packets) noexcept {
    return (psn + packets) & psn_mask;
}

// How far `to` is ahead of `from`; below 0 if it is behind. A distance of half of all PSNs counts
// as ahead.
constexpr std::int32_t distance(Psn from, Psn to) noexcept {
    constexpr unsigned spare_bits = 8;
    return -(static_cast<std::int32_t>((from - to) << spare_bits) >> spare_bits);
}

// A message without bytes takes a packet, too.
constexpr std::uint32_t packets_of(std::uint64_t length, std::uint32_t mtu) noexcept {
    return length == 0 ? 1 : static_cast<std::uint32_t>((length + mtu - 1) / mtu);
}

} // namespace vrdma::hca::soft::roce
