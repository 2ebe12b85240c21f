// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Reads and writes structures in frames, where nothing is aligned.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstring>
#include <span>
#include <type_traits>

namespace vrdma::wire {

template <typename T>
T load(std::span<const std::byte> bytes, std::size_t at) noexcept {
    static_assert(std::is_trivially_copyable_v<T>);
    assert(at <= bytes.size() && sizeof(T) <= bytes.size() - at);
    T value;
    std::memcpy(&value, bytes.data() + at, sizeof(value));
    return value;
}

template <typename T>
void store(std::span<std::byte> bytes, std::size_t at, const T& value) noexcept {
    static_assert(std::is_trivially_copyable_v<T>);
    assert(at <= bytes.size() && sizeof(T) <= bytes.size() - at);
    std::memcpy(bytes.data() + at, &value, sizeof(value));
}

} // namespace vrdma::wire
