// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A network interface, as the host describes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "mediator/base/result.h"
#include "mediator/wire/packet.h"

namespace vrdma::wire {

// The most bytes of a frame that an MTU does not count.
inline constexpr std::size_t ethernet_and_tag = 14 + 4;

struct Link {
    int index = 0;
    Mac mac{};
    std::uint32_t mtu = 0;
    std::uint32_t mbps = 0; // 0: its driver does not say, as without a carrier, or virtio's
    bool up = false;        // and has a carrier

    friend bool operator==(const Link&, const Link&) = default;
};

// no_such_device: there is none of that name. not_supported: its frames are not Ethernet's.
Result<Link> read_link(const std::string& interface);
// Works with any socket, for a thread that can open none.
Result<std::uint32_t> read_mtu(int socket, const std::string& interface) noexcept;

} // namespace vrdma::wire
