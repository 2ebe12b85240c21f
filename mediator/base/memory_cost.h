// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// What objects take of this process's memory, in bytes, at most: with what the heap and the
// standard library's containers add.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace vrdma {

// Allocated by itself.
template <typename T>
constexpr std::uint64_t heap_cost() {
    constexpr std::uint64_t header = 2 * sizeof(void*);
    return sizeof(T) + header + (alignof(T) > header ? alignof(T) : 0);
}

// In an unordered map or set: an item has a link and its hash, and the table grows to twice what it
// was.
template <typename T>
constexpr std::uint64_t table_cost() {
    return heap_cost<T>() + (2 + 3) * sizeof(void*);
}

// In a map or set.
template <typename T>
constexpr std::uint64_t map_cost() {
    return heap_cost<T>() + 4 * sizeof(void*);
}

// In a vector that grows to twice what it was.
template <typename T>
constexpr std::uint64_t vector_cost() {
    return 3 * sizeof(T);
}

} // namespace vrdma
