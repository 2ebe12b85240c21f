// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The memory of this process that objects take, in bytes, at most. It includes what the heap and
// the standard library's containers add.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace vrdma {

// For an object that is allocated by itself.
template <typename T>
constexpr std::uint64_t heap_cost() {
    constexpr std::uint64_t header = 2 * sizeof(void*);
    return sizeof(T) + header + (alignof(T) > header ? alignof(T) : 0);
}

// For an item of an unordered map or set: it has a link and its hash, and the table doubles when it
// grows.
template <typename T>
constexpr std::uint64_t table_cost() {
    return heap_cost<T>() + (2 + 3) * sizeof(void*);
}

// For an item of a map or set.
template <typename T>
constexpr std::uint64_t map_cost() {
    return heap_cost<T>() + 4 * sizeof(void*);
}

// For an item of a vector, which doubles when it grows.
template <typename T>
constexpr std::uint64_t vector_cost() {
    return 3 * sizeof(T);
}

} // namespace vrdma
