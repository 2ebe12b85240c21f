// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// How many mappings this process has, of which the kernel allows so many (vm.max_map_count).
#pragma once

#include <cstddef>
#include <fstream>
#include <string>

namespace vrdma::test {

inline std::size_t mappings() {
    std::ifstream maps{"/proc/self/maps"};
    std::size_t count = 0;
    for (std::string line; std::getline(maps, line);) {
        ++count;
    }
    return count;
}

} // namespace vrdma::test
