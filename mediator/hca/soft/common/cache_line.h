// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Avoids false sharing. Data that a poller writes while it works begins on its own cache line, and
// shares its last line with nothing else. The heap would put objects of different pollers beside
// each other, and each poller would wait for stores of the other to unrelated objects.
#pragma once

#include <cstddef>
#include <new>
#include <vector>

namespace vrdma::hca::soft {

inline constexpr std::size_t cache_line = 64;

template <typename T>
struct LineAllocator {
    using value_type = T;

    LineAllocator() = default;
    template <typename U>
    LineAllocator(const LineAllocator<U>&) noexcept {}

    T* allocate(std::size_t count) {
        // NOLINTNEXTLINE(bugprone-sizeof-expression): of pointers, too
        const std::size_t lines = (count * sizeof(T) + cache_line - 1) / cache_line;
        return static_cast<T*>(::operator new (lines* cache_line, std::align_val_t{cache_line}));
    }
    void deallocate(T* start, std::size_t) noexcept {
        ::operator delete (start, std::align_val_t{cache_line});
    }

    friend bool operator==(const LineAllocator&, const LineAllocator&) noexcept { return true; }
};

template <typename T>
using LineVector = std::vector<T, LineAllocator<T>>;

} // namespace vrdma::hca::soft
