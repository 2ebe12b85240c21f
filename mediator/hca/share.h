// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// What the administrator lets a slice use.
#pragma once

#include <bitset>
#include <cstdint>

namespace vrdma::hca {

// A slice's share of its poller, in proportion to the weights of the poller's slices, and the
// limits that the slice never exceeds. The slice that requests an operation is charged for it: for
// what it sends, writes and reads. It is also charged for the packets that the network sends to it.
struct Share {
    static constexpr std::uint32_t max_weight = 10000;

    std::uint32_t weight = 100;         // 1 to max_weight
    std::uint64_t bytes_per_second = 0; // 0: no limit
    std::uint64_t operations_per_second = 0;

    friend bool operator==(const Share&, const Share&) = default;
};

// DSCPs (RFC 2474).
using TrafficClasses = std::bitset<64>;

// The service levels that RoCE has (IBA A16.5.1). They are Ethernet's priorities.
using ServiceLevels = std::bitset<8>;

} // namespace vrdma::hca
