// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The checksum of an IPv4 header (RFC 1071).
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace vrdma::wire {

// The sum of words, with its carries added.
constexpr std::uint16_t fold(std::uint32_t sum) noexcept {
    sum = (sum & 0xffff) + (sum >> 16);
    return static_cast<std::uint16_t>(sum + (sum >> 16));
}

// The value to store if the header's field is zero; zero if the field is right.
template <typename Header>
std::uint16_t checksum(const Header& header) noexcept {
    static_assert(std::is_trivially_copyable_v<Header> && sizeof(Header) % 2 == 0);
    std::array<std::uint16_t, sizeof(header) / 2> words;
    std::memcpy(words.data(), &header, sizeof(header));
    std::uint32_t sum = 0;
    for (const std::uint16_t word : words) {
        sum += word;
    }
    return static_cast<std::uint16_t>(~fold(sum));
}

} // namespace vrdma::wire
