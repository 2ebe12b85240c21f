// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Which priority of Ethernet's (IEEE 802.1Q) packets have on an uplink. Switches and the host's
// queueing disciplines choose a frame's queue by it, and PFC stops one priority and no other.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace vrdma::wire {

struct Priorities {
    static constexpr std::size_t count = 8;
    static constexpr std::size_t dscps = 64;

    // A DSCP's upper half and a service level's own number, as NICs and switches have them if they
    // are not told otherwise.
    constexpr Priorities() {
        for (std::size_t i = 0; i < dscps; ++i) {
            of_dscp[i] = static_cast<std::uint8_t>(i / count);
        }
        for (std::size_t i = 0; i < count; ++i) {
            of_service_level[i] = static_cast<std::uint8_t>(i);
        }
    }

    std::array<std::uint8_t, dscps> of_dscp{};
    std::array<std::uint8_t, count> of_service_level{}; // but of 0, which asks for none

    friend bool operator==(const Priorities&, const Priorities&) = default;
};

} // namespace vrdma::wire
