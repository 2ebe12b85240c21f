// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// What must hold whatever the input is: a fuzzer that finds otherwise ends.
#pragma once

#include <cstdlib>

namespace vrdma::fuzz {

inline void require(bool condition) {
    if (!condition) {
        std::abort();
    }
}

} // namespace vrdma::fuzz
