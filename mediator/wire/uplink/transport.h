// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Chooses one of the two uplinks: packet sockets work everywhere, AF_XDP on some interfaces.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <tl/expected.hpp>

#include "mediator/wire/uplink.h"

namespace vrdma::wire {

class Steering;

enum class Transport : std::uint8_t {
    automatic, // AF_XDP with zero copy, or AF_PACKET: AF_XDP with copies costs others
    af_xdp,    // in the best mode of the interface
    af_packet,
};

// The log says which one it is, and why it is not AF_XDP if that was tried. The error is for
// people. `steering` is the interface's, or nullptr if it has none.
tl::expected<std::unique_ptr<Uplink>, std::string> open_uplink(const std::string& interface,
                                                               Transport transport,
                                                               const Steering* steering);

} // namespace vrdma::wire
