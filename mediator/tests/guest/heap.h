// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The heap of a test's process, by operator new: reports how much is in use, and can fail
// allocations.
#pragma once

#include <cstddef>

namespace vrdma::test {

std::size_t heap_in_use() noexcept;

// While it lives, allocations of so many bytes or more fail.
class NoMemory {
  public:
    explicit NoMemory(std::size_t bytes = 0) noexcept;
    NoMemory(const NoMemory&) = delete;
    NoMemory& operator=(const NoMemory&) = delete;
    ~NoMemory();
};

} // namespace vrdma::test
