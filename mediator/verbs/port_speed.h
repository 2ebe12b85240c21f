// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// How fast a port is, in the words of InfiniBand: lanes, and what each of them carries.
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

// As good as memory: 4 lanes of 25 Gb/s.
inline constexpr PortSpeed as_memory{32, 2};

// The fastest that is no faster, as NICs of these speeds say it; a port that is slower than a lane
// is a lane. 0 stands for a port that nobody knows the speed of.
PortSpeed port_speed(std::uint32_t mbps, const PortSpeed& unknown = as_memory) noexcept;

// "4x EDR": the lanes and the speed of each, as InfiniBand's tools name them. Nothing: it is none
// that verbs know.
std::optional<PortSpeed> parse_port_speed(std::string_view text) noexcept;

} // namespace vrdma::verbs
