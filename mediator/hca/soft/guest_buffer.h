// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A buffer of the guest, block by block, as host memory: rings and memory regions are made of it.
#pragma once

#include <span>

#include "mediator/hca/hca.h"

namespace vrdma::hca::soft {

class GuestBuffer {
  public:
    GuestBuffer() = default;

    // EFAULT where a block lies outside the window, EINVAL where the blocks do not make up the
    // length.
    static Result<GuestBuffer> map(const GuestMemory& memory, Translation pages);

    std::uint64_t length() const noexcept { return length_; }

    // Touches every page, so that rings are there before a poller needs them. EFAULT where the
    // guest has no memory.
    Result<> populate(GuestMemory& memory) const noexcept;

    // Nobody uses the buffer any more: its pages need not stay pinned.
    void release(GuestMemory& memory) const noexcept;

    // The word or ring entry at offset, which must lie in one block.
    std::byte* at(std::uint64_t offset) const noexcept {
        const std::uint64_t place = first_offset_ + offset;
        return base_ + raw(blocks_[place >> shift_]) + (place & mask());
    }

    // The longest run of adjacent host memory at offset, of at most `limit` bytes.
    std::span<std::byte> run(std::uint64_t offset, std::uint64_t limit) const noexcept;

  private:
    std::uint64_t mask() const noexcept { return (std::uint64_t{1} << shift_) - 1; }

    std::byte* base_ = nullptr; // of the guest's window
    std::vector<Iova> blocks_;
    std::uint64_t first_offset_ = 0;
    std::uint64_t length_ = 0;
    unsigned shift_ = VRDMA_PAGE_SHIFT;
    bool contiguous_ = false; // all blocks follow each other
};

} // namespace vrdma::hca::soft
