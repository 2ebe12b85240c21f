// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The rules that the rings of QPs and SRQs have in common.
#pragma once

#include <bit>
#include <cstdint>

#include "mediator/hca/queue_format.h"
#include "mediator/hca/translation.h"
#include "vrdma/queue.h"

namespace vrdma::verbs {

// A stride is a power of two and holds a WQE. It must be valid even without a ring, because the
// layout of a QP's buffer depends on it.
constexpr bool valid_stride(unsigned shift, unsigned min_shift, std::uint64_t wqe_size) {
    return shift >= min_shift && shift <= VRDMA_MAX_STRIDE_SHIFT && wqe_size <= 1ull << shift;
}

constexpr bool valid_depth(std::uint32_t depth, std::uint32_t max_depth) {
    return std::has_single_bit(depth) && depth <= max_depth;
}

constexpr std::uint64_t receive_size(hca::QueueFormat format, std::uint16_t max_sge) {
    return hca::receive_header(format) + std::uint64_t{max_sge} * sizeof(vrdma_sge);
}

// No WQE may cross a page.
constexpr bool valid_offset(const hca::Translation& pages, unsigned stride_shift) {
    return pages.first_offset % (1ull << stride_shift) == 0;
}

} // namespace vrdma::verbs
