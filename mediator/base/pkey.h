// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// P_Keys: the partition of a packet, and whether its sender is a full or a limited member of it
// (IBA 10.9).
#pragma once

#include <cstdint>
#include <vector>

namespace vrdma {

inline constexpr std::uint16_t full_member = 0x8000;
inline constexpr std::uint16_t default_pkey = 0xffff; // a full member of the default partition

// A port's table: at least one, and not more than VRDMA_MAX_PKEYS, each in another partition.
using PKeys = std::vector<std::uint16_t>;

constexpr std::uint16_t partition_of(std::uint16_t pkey) noexcept {
    return pkey & static_cast<std::uint16_t>(~full_member);
}

// Whether the two may talk: they are members of one partition, and not both are limited members
// (IBA 10.9.3). P_Key 0 is in no partition.
constexpr bool share_partition(std::uint16_t one, std::uint16_t other) noexcept {
    return partition_of(one) == partition_of(other) && partition_of(one) != 0 &&
           ((one | other) & full_member) != 0;
}

} // namespace vrdma
