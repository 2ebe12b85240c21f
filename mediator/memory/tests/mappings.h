// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Counts the mappings of a range of this process. The kernel limits the mappings of a process
// (vm.max_map_count). A sanitizer's own mappings come and go elsewhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <ios>
#include <string>

namespace vrdma::test {

inline std::size_t mappings(const std::byte* range, std::uint64_t size) {
    const auto from = reinterpret_cast<std::uintptr_t>(range);
    std::ifstream maps{"/proc/self/maps"};
    std::size_t count = 0;
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    char dash = 0;
    for (std::string rest; maps >> std::hex >> begin >> dash >> end && std::getline(maps, rest);) {
        count += begin < from + size && from < end ? 1 : 0;
    }
    return count;
}

} // namespace vrdma::test
