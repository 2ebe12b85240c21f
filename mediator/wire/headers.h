// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The transport's own headers. A packet's opcode says which ones it has (IBA 9.4 and 9.5).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "mediator/wire/packet.h"

namespace vrdma::wire {

// The extended headers, in the order in which they follow the BTH.
enum Extended : std::uint16_t {
    ext_xrceth = 1 << 0,
    ext_deth = 1 << 1,
    ext_reth = 1 << 2,
    ext_atomic_eth = 1 << 3,
    ext_aeth = 1 << 4,
    ext_atomic_ack_eth = 1 << 5,
    ext_immdt = 1 << 6,
    ext_ieth = 1 << 7,
    ext_cnp = 1 << 8,
};

struct Shape {
    std::uint8_t size = 0; // of BTH and extended headers; 0: no packet has it
    bool may_have_payload = false;
    std::uint16_t extended = 0; // set of Extended
    bool known = false;         // else its receiver answers that it is not
};

const Shape& shape_of(std::uint8_t opcode) noexcept;

// `transport` has the bytes from the BTH to the end of the padding, and at least a BTH. `size` gets
// the size of the headers, `padding` that of the padding.
Drop parse_headers(std::span<const std::byte> transport, Headers& headers, std::size_t& size,
                   std::size_t& padding) noexcept;

// Returns the size of the headers. The opcode must exist, and the bytes must have room.
std::size_t write_headers(std::span<std::byte> transport, const Headers& headers,
                          std::size_t padding) noexcept;

} // namespace vrdma::wire
