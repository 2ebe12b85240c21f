// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The memory of a ring or a region, as blocks in the guest's address space.
#pragma once

#include <cstdint>

#include "mediator/hca/blocks.h"
#include "vrdma/device.h"

namespace vrdma::hca {

// The blocks that make up a buffer of the guest: block_shift is at least VRDMA_PAGE_SHIFT, and the
// buffer begins first_offset bytes into the first block.
struct Translation {
    // The result of an earlier check of all blocks, which the slice then need not repeat. If it is
    // not `unknown`, the blocks make up the buffer and lie in the window.
    enum class Order : std::uint8_t { unknown, adjacent, scattered };

    Blocks blocks;
    unsigned block_shift = VRDMA_PAGE_SHIFT;
    std::uint64_t first_offset = 0;
    std::uint64_t length = 0;
    Order order = Order::unknown;
    bool touched = false; // of a ring: Slice::touch() has touched all of it
};

} // namespace vrdma::hca
