// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The Ethernet priority (IEEE 802.1Q) that packets have on an uplink. Switches and the host's
// queueing disciplines choose a frame's queue by it, and PFC stops one priority and no other.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace vrdma::wire {

struct Priorities {
    static constexpr std::size_t count = 8;
    static constexpr std::size_t dscps = 64;

    // The defaults of NICs and switches: the upper half of a DSCP, and the number of a service
    // level.
    constexpr Priorities() {
        for (std::size_t i = 0; i < dscps; ++i) {
            of_dscp[i] = static_cast<std::uint8_t>(i / count);
        }
        for (std::size_t i = 0; i < count; ++i) {
            of_service_level[i] = static_cast<std::uint8_t>(i);
        }
    }

    std::array<std::uint8_t, dscps> of_dscp{};
    std::array<std::uint8_t, count> of_service_level{}; // except of 0, which asks for none

    friend bool operator==(const Priorities&, const Priorities&) = default;
};

} // namespace vrdma::wire
