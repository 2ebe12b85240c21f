// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// How fast a port is, in the words of InfiniBand: lanes, and what each of them carries.
#pragma once

#include <cstdint>

namespace vrdma {

struct PortSpeed {
    std::uint8_t speed; // enum ib_port_speed
    std::uint8_t width; // enum ib_port_width

    friend bool operator==(const PortSpeed&, const PortSpeed&) = default;
};

// The fastest that is no faster, as NICs of these speeds say it; a port that is slower than a lane
// is a lane. Of 0, which stands for a port that nobody knows the speed of: as good as memory, which
// is 4 lanes of 25 Gb/s.
PortSpeed port_speed(std::uint32_t mbps) noexcept;

} // namespace vrdma
