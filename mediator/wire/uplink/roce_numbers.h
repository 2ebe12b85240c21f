// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// By what a network tells RoCE from other traffic.
#pragma once

#include <cstdint>

namespace vrdma::wire {

inline constexpr std::uint16_t roce_v1_ethertype = 0x8915;
inline constexpr std::uint16_t roce_v2_port = 4791;

} // namespace vrdma::wire
