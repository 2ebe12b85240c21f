// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The SGEs of a WQE. They are the same in all formats.
#pragma once

#include <cstring>

#include "mediator/hca/soft/queues/wqe.h"

namespace vrdma::hca::soft {

// Copies the list at `from`, which lies in the entry, and adds up its bytes.
inline std::uint64_t copy_sges(const std::byte* from, std::uint32_t count, Sge* to) noexcept {
    std::uint64_t length = 0;
    for (std::uint32_t i = 0; i < count; ++i) {
        vrdma_sge sge;
        std::memcpy(&sge, from + i * sizeof(sge), sizeof(sge));
        to[i] = {sge.addr, sge.length, sge.lkey};
        length += sge.length;
    }
    return length;
}

inline bool fits(std::uint32_t num_sge, std::uint32_t payload_offset,
                 const WqeLimits& limits) noexcept {
    return num_sge <= limits.max_sge && num_sge <= VRDMA_MAX_SGE &&
           payload_offset + num_sge * sizeof(vrdma_sge) <= limits.stride;
}

} // namespace vrdma::hca::soft
