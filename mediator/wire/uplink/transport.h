// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Which of the two uplinks it is: packet sockets work everywhere, AF_XDP here and there.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <tl/expected.hpp>

#include "mediator/wire/uplink.h"

namespace vrdma::wire {

class Steering;

enum class Transport : std::uint8_t {
    automatic, // AF_XDP with zero copy, or AF_PACKET: with copies, others on the interface pay
    af_xdp,    // as good as the interface has it
    af_packet,
};

// Which it is goes to the log, and why it is not AF_XDP if that was tried. The error is for people.
// Steering: the interface's, or nullptr if it has none.
tl::expected<std::unique_ptr<Uplink>, std::string> open_uplink(const std::string& interface,
                                                               Transport transport,
                                                               const Steering* steering);

} // namespace vrdma::wire
