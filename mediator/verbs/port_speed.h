// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The speed of a port in the terms of InfiniBand: the number of lanes, and the speed of each.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace vrdma::verbs {

struct PortSpeed {
    std::uint8_t speed; // enum ib_port_speed
    std::uint8_t width; // enum ib_port_width

    friend bool operator==(const PortSpeed&, const PortSpeed&) = default;
};

// Stands for the speed of memory: 4 lanes of 25 Gb/s.
inline constexpr PortSpeed as_memory{32, 2};

// Returns the fastest speed of at most `mbps`, as NICs of these speeds report it. A port that is
// slower than one lane counts as one lane. If `mbps` is 0, the speed is not known: returns
// `unknown`.
PortSpeed port_speed(std::uint32_t mbps, const PortSpeed& unknown = as_memory) noexcept;

// Returns the rate of such a port in Mb/s, as it is called: 100,000 for 4 lanes of EDR.
std::uint32_t nominal_mbps(const PortSpeed& speed) noexcept;

// Parses a text such as "4x EDR": the lanes and the speed of each, as InfiniBand's tools name them.
// Returns nothing if verbs do not know such a speed.
std::optional<PortSpeed> parse_port_speed(std::string_view text) noexcept;

} // namespace vrdma::verbs
