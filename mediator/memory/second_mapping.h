// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#pragma once

#include <sys/mman.h>

#include "mediator/base/result.h"

namespace vrdma {

// Maps a part of a shared mapping a second time. With an old size of 0, mremap() leaves the first.
inline Result<std::uint64_t> map_second_time(std::byte* from, std::uint64_t length,
                                             std::byte* place) {
    if (::mremap(from, 0, length, MREMAP_MAYMOVE | MREMAP_FIXED, place) == MAP_FAILED) {
        return fail(std::errc::operation_not_supported);
    }
    return length;
}

} // namespace vrdma
