// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The heap of a test's process, by operator new: how much of it is in use, and none left to be had.
#pragma once

#include <cstddef>

namespace vrdma::test {

std::size_t heap_in_use() noexcept;

// As long as it lives, what asks for so many bytes or more at a time finds no memory.
class NoMemory {
  public:
    explicit NoMemory(std::size_t bytes = 0) noexcept;
    NoMemory(const NoMemory&) = delete;
    NoMemory& operator=(const NoMemory&) = delete;
    ~NoMemory();
};

} // namespace vrdma::test
