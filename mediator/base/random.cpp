// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/base/random.h"

#include <sys/random.h>

#include <array>
#include <cstdio>
#include <cstdlib>

namespace vrdma {

// Once its generator is seeded, the kernel returns up to 256 bytes per call, never fewer than asked
// for.
std::uint32_t random_u32() {
    thread_local std::array<std::uint32_t, 64> pool;
    thread_local std::size_t left = 0;
    if (left == 0) {
        if (::getrandom(pool.data(), sizeof(pool), 0) != static_cast<ssize_t>(sizeof(pool))) {
            std::perror("getrandom");
            std::abort();
        }
        left = pool.size();
    }
    return pool[--left];
}

} // namespace vrdma
