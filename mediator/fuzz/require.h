// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A condition that must hold for any input. The fuzzer aborts if it does not.
#pragma once

#include <cstdlib>

namespace vrdma::fuzz {

inline void require(bool condition) {
    if (!condition) {
        std::abort();
    }
}

} // namespace vrdma::fuzz
