// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Copies guest memory into private memory, once, for everything that the control path reads.
#pragma once

#include <cstring>
#include <span>

#include "mediator/base/result.h"
#include "mediator/memory/guest_memory.h"

namespace vrdma::verbs {

// Fails if the copy met a scratch page, which stands for a page that the guest does not have. The
// fault may also be another thread's, so the copy is tried again.
inline Result<> copy_from_guest(GuestMemory& memory, Iova iova, std::span<std::byte> to) {
    const std::byte* from = memory.at(iova, to.size());
    if (from == nullptr) {
        return fail(std::errc::bad_address);
    }
    constexpr int looks = 3;
    for (int look = 0; look < looks; ++look) {
        const std::uint64_t faults = memory.scratch_faults();
        std::memcpy(to.data(), from, to.size());
        if (memory.scratch_faults() == faults) {
            return {};
        }
        memory.release(iova, to.size());
    }
    return fail(std::errc::bad_address);
}

} // namespace vrdma::verbs
