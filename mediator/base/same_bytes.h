// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Compares addresses where each packet has some. For std::array's operator, GCC 12 calls memcmp().
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace vrdma {

template <std::size_t size>
bool same_bytes(const std::array<std::uint8_t, size>& one,
                const std::array<std::uint8_t, size>& other) noexcept {
    return std::memcmp(one.data(), other.data(), size) == 0;
}

} // namespace vrdma
