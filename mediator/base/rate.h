// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The largest limit per second, of bytes or operations, that an administrator may set.
#pragma once

#include <cstdint>

namespace vrdma {

inline constexpr std::uint64_t max_rate = 1'000'000'000'000'000;

} // namespace vrdma
