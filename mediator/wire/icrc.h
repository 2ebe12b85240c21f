// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The invariant CRC: it covers all that does not change on the way from host to host (IBA 7.8.1,
// A16.4.3, A17.3.3).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "mediator/wire/encapsulation.h"

namespace vrdma::wire {

// `bytes` begin with the IP header or GRH, and end with the padding. They hold at least that
// header, the UDP header if there is one, and the BTH. The CRC goes on the wire least significant
// byte first.
std::uint32_t icrc(Network network, std::span<const std::byte> bytes) noexcept;

} // namespace vrdma::wire
