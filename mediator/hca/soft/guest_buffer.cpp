// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/guest_buffer.h"

#include <algorithm>
#include <cassert>

#include "mediator/hca/soft/scratch_watch.h"
#include "mediator/memory/shared_words.h"

namespace vrdma::hca::soft {

Result<GuestBuffer> GuestBuffer::map(const GuestMemory& memory, Translation pages) {
    if (pages.block_shift < VRDMA_PAGE_SHIFT || pages.block_shift > VRDMA_MAX_PAGE_SHIFT) {
        return fail(std::errc::invalid_argument);
    }
    const std::uint64_t block = std::uint64_t{1} << pages.block_shift;
    const std::uint64_t mapped = pages.blocks.size() * block;
    if (pages.first_offset >= block || pages.length == 0 || mapped < pages.first_offset ||
        pages.length > mapped - pages.first_offset) {
        return fail(std::errc::invalid_argument);
    }
    // Only the bytes in use count: the ends of a large block may reach beyond the guest's memory.
    std::uint64_t begin = pages.first_offset;
    std::uint64_t left = pages.length;
    for (const Iova iova : pages.blocks) {
        if ((raw(iova) & (block - 1)) != 0) {
            return fail(std::errc::invalid_argument);
        }
        const std::uint64_t used = std::min(left, block - begin);
        if (used != 0 && memory.at(iova + begin, used) == nullptr) {
            return fail(std::errc::bad_address);
        }
        left -= used;
        begin = 0;
    }
    const auto gap = std::adjacent_find(
        pages.blocks.begin(), pages.blocks.end(),
        [block](Iova first, Iova second) { return raw(second) != raw(first) + block; });
    GuestBuffer buffer;
    buffer.contiguous_ = gap == pages.blocks.end();
    buffer.base_ = memory.at(Iova{0}, 0);
    buffer.blocks_ = std::move(pages.blocks);
    buffer.first_offset_ = pages.first_offset;
    buffer.length_ = pages.length;
    buffer.shift_ = pages.block_shift;
    return buffer;
}

Result<> GuestBuffer::populate(GuestMemory& memory) const noexcept {
    // A fault may also be that of a poller, on other pages: hence some more looks.
    constexpr int looks = 3;
    for (int look = 0; look < looks; ++look) {
        const ScratchWatch watch{memory};
        for (std::uint64_t offset = 0; offset < length_;) {
            const auto piece =
                run(offset, VRDMA_PAGE_SIZE - (first_offset_ + offset) % VRDMA_PAGE_SIZE);
            static_cast<void>(load_relaxed(piece.front()));
            offset += piece.size();
        }
        if (!watch.tripped()) {
            return {};
        }
        release(memory);
    }
    return fail(std::errc::bad_address);
}

void GuestBuffer::release(GuestMemory& memory) const noexcept {
    for (std::uint64_t offset = 0; offset < length_;) {
        const auto piece = run(offset, length_ - offset);
        soft::release(memory, piece);
        offset += piece.size();
    }
}

std::span<std::byte> GuestBuffer::run(std::uint64_t offset, std::uint64_t limit) const noexcept {
    assert(offset < length_);
    const std::uint64_t wanted = std::min(limit, length_ - offset);
    if (contiguous_) {
        return {at(offset), wanted};
    }
    const std::uint64_t place = first_offset_ + offset;
    const std::uint64_t block = mask() + 1;
    std::size_t index = place >> shift_;
    std::uint64_t length = block - (place & mask());
    while (length < wanted && raw(blocks_[index + 1]) == raw(blocks_[index]) + block) {
        length += block;
        ++index;
    }
    return {at(offset), std::min(length, wanted)};
}

} // namespace vrdma::hca::soft
