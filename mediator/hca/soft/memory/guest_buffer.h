// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A buffer of the guest, block by block, as host memory. Rings and memory regions consist of such
// buffers.
#pragma once

#include <algorithm>
#include <cassert>
#include <span>

#include "mediator/base/result.h"
#include "mediator/hca/translation.h"
#include "mediator/memory/guest_memory.h"

namespace vrdma::hca::soft {

class GuestBuffer {
  public:
    GuestBuffer() = default;

    // EFAULT if a block lies outside the window. EINVAL if the blocks do not make up the length.
    static Result<GuestBuffer> map(const GuestMemory& memory, Translation pages);

    // An empty buffer with room for load().
    static GuestBuffer reserve(const GuestMemory& memory, std::size_t max_blocks);

    // Takes the blocks from a list of up to two levels in guest memory, on a poller: allocates
    // nothing. Returns false if the list is invalid, or has more blocks than there is room for or
    // than one page of a list; the buffer is empty then.
    bool load(GuestMemory& memory, const vrdma_page_list& list, std::uint64_t first_offset,
              std::uint64_t length) noexcept;
    // Takes the blocks from another buffer. The room stays what it was.
    bool load(const GuestBuffer& other) noexcept;

    // The translation by which the buffer could be mapped again, until the next load().
    Translation pages() const;

    std::uint64_t length() const noexcept { return length_; }

    // Touches at most `pages` pages from `offset` on, so that rings are present before a poller
    // needs them. It stops early when a step's time is over. EFAULT: the guest has no memory there.
    // The pages that this call touched are given back then.
    Result<> populate(GuestMemory& memory, std::uint64_t& offset,
                      std::uint64_t pages) const noexcept;

    // The word or ring entry at offset, which must lie in one block.
    std::byte* at(std::uint64_t offset) const noexcept {
        if (adjacent_ != nullptr) {
            return adjacent_ + offset;
        }
        const std::uint64_t place = first_offset_ + offset;
        return base_ + raw(blocks_[place >> shift_]) + (place & mask());
    }

    // The longest run of adjacent host memory at offset, of at most `limit` bytes.
    std::span<std::byte> run(std::uint64_t offset, std::uint64_t limit) const noexcept {
        assert(offset < length_);
        const std::uint64_t wanted = std::min(limit, length_ - offset);
        return adjacent_ != nullptr ? std::span{adjacent_ + offset, wanted}
                                    : run_of_blocks(offset, wanted);
    }

  private:
    void release(GuestMemory& memory, std::uint64_t begin, std::uint64_t end) const noexcept;
    std::byte* first_byte() const noexcept { return base_ + raw(blocks_.front()) + first_offset_; }
    Result<> check(const GuestMemory& memory) const noexcept;
    void look_for_gaps() noexcept;
    std::span<std::byte> run_of_blocks(std::uint64_t offset, std::uint64_t wanted) const noexcept;
    bool load_blocks(GuestMemory& memory, const vrdma_page_list& list) noexcept;
    std::uint64_t mask() const noexcept { return (std::uint64_t{1} << shift_) - 1; }

    std::byte* base_ = nullptr; // of the guest's window
    Blocks blocks_;             // not shared in a fast region
    std::uint64_t first_offset_ = 0;
    std::uint64_t length_ = 0;
    std::byte* adjacent_ = nullptr; // the first byte if all blocks are adjacent
    unsigned shift_ = VRDMA_PAGE_SHIFT;
};

} // namespace vrdma::hca::soft
