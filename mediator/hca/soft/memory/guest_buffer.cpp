// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/memory/guest_buffer.h"

#include <algorithm>
#include <cstring>

#include "mediator/base/step_time.h"
#include "mediator/hca/soft/memory/scratch_watch.h"
#include "mediator/memory/shared_words.h"

namespace vrdma::hca::soft {

// Whether the blocks make up the buffer, and lie in the window.
Result<> GuestBuffer::check(const GuestMemory& memory) const noexcept {
    if (shift_ < VRDMA_PAGE_SHIFT || shift_ > VRDMA_MAX_PAGE_SHIFT) {
        return fail(std::errc::invalid_argument);
    }
    const std::uint64_t block = mask() + 1;
    const std::uint64_t mapped = blocks_.size() * block;
    if (first_offset_ >= block || length_ == 0 || mapped < first_offset_ ||
        length_ > mapped - first_offset_) {
        return fail(std::errc::invalid_argument);
    }
    // Only the bytes in use count: the ends of a large block may reach beyond the guest's memory.
    std::uint64_t begin = first_offset_;
    std::uint64_t left = length_;
    for (const Iova iova : blocks_) {
        if ((raw(iova) & mask()) != 0) {
            return fail(std::errc::invalid_argument);
        }
        const std::uint64_t used = std::min(left, block - begin);
        if (used != 0 && memory.at(iova + begin, used) == nullptr) {
            return fail(std::errc::bad_address);
        }
        left -= used;
        begin = 0;
    }
    return {};
}

void GuestBuffer::look_for_gaps() noexcept {
    const std::uint64_t block = mask() + 1;
    const auto gap = std::adjacent_find(
        blocks_.begin(), blocks_.end(),
        [block](Iova first, Iova second) { return raw(second) != raw(first) + block; });
    adjacent_ = gap == blocks_.end() ? first_byte() : nullptr;
}

Result<GuestBuffer> GuestBuffer::map(const GuestMemory& memory, Translation pages) {
    GuestBuffer buffer;
    buffer.base_ = memory.at(Iova{0}, 0);
    buffer.blocks_ = std::move(pages.blocks);
    buffer.first_offset_ = pages.first_offset;
    buffer.length_ = pages.length;
    buffer.shift_ = pages.block_shift;
    if (pages.order != Translation::Order::unknown) {
        const bool adjacent = pages.order == Translation::Order::adjacent;
        buffer.adjacent_ = adjacent ? buffer.first_byte() : nullptr;
        return buffer;
    }
    if (const auto valid = buffer.check(memory); !valid) {
        return fail(valid.error());
    }
    buffer.look_for_gaps();
    return buffer;
}

GuestBuffer GuestBuffer::reserve(const GuestMemory& memory, std::size_t max_blocks) {
    GuestBuffer buffer;
    buffer.base_ = memory.at(Iova{0}, 0);
    buffer.blocks_ = Blocks::reserve(max_blocks);
    return buffer;
}

namespace {

// Copies the beginning of a page of a list.
bool load_page(GuestMemory& memory, Iova page, std::span<std::byte> to) noexcept {
    const std::byte* const from = memory.at(page, VRDMA_PAGE_SIZE);
    if (from == nullptr || raw(page) % VRDMA_PAGE_SIZE != 0) {
        return false;
    }
    const ScratchWatch watch{memory};
    std::memcpy(to.data(), from, to.size());
    if (watch.tripped()) {
        memory.release(page, VRDMA_PAGE_SIZE);
        return false;
    }
    return true;
}

} // namespace

// Adjacent blocks need no list: the root is the first of them.
bool GuestBuffer::load_blocks(GuestMemory& memory, const vrdma_page_list& list) noexcept {
    const auto blocks = blocks_.refill(list.count);
    if (list.levels == 0) {
        for (std::size_t i = 0; i < blocks.size(); ++i) {
            blocks[i] = Iova{list.root + (i << shift_)};
        }
        return true;
    }
    Iova page{list.root};
    // There are no more blocks than one page lists. So only the first entry above matters.
    if (list.levels == 2 && !load_page(memory, page, std::as_writable_bytes(std::span{&page, 1}))) {
        return false;
    }
    return load_page(memory, page, std::as_writable_bytes(blocks));
}

bool GuestBuffer::load(GuestMemory& memory, const vrdma_page_list& list, std::uint64_t first_offset,
                       std::uint64_t length) noexcept {
    length_ = 0;
    if (list.levels > 2 || list.count == 0 || list.count > blocks_.capacity() ||
        list.count > VRDMA_PAGE_LIST_ENTRIES || list.page_shift > VRDMA_MAX_PAGE_SHIFT) {
        return false;
    }
    shift_ = list.page_shift;
    first_offset_ = first_offset;
    if (!load_blocks(memory, list)) {
        return false;
    }
    length_ = length;
    if (!check(memory)) {
        length_ = 0;
        return false;
    }
    look_for_gaps();
    return true;
}

bool GuestBuffer::load(const GuestBuffer& other) noexcept {
    if (other.blocks_.size() > blocks_.capacity()) {
        return false;
    }
    std::ranges::copy(other.blocks_, blocks_.refill(other.blocks_.size()).begin());
    first_offset_ = other.first_offset_;
    length_ = other.length_;
    shift_ = other.shift_;
    adjacent_ = other.adjacent_;
    return true;
}

Translation GuestBuffer::pages() const {
    return {blocks_, shift_, first_offset_, length_};
}

// Ends at the first absent page: touching an absent page costs the time of a fault.
Result<> GuestBuffer::populate(GuestMemory& memory, std::uint64_t& offset,
                               std::uint64_t pages) const noexcept {
    // The fault may be a poller's, on other pages, or of a page that has come back: so look again.
    constexpr int looks = 3;
    const std::uint64_t begin = offset;
    const StepTime time;
    int left = looks;
    while (offset < length_ && pages != 0) {
        const auto piece =
            run(offset, VRDMA_PAGE_SIZE - (first_offset_ + offset) % VRDMA_PAGE_SIZE);
        const ScratchWatch watch{memory};
        static_cast<void>(load_relaxed(piece.front()));
        if (!watch.tripped()) {
            offset += piece.size();
            pages = time.over() ? 0 : pages - 1;
            left = looks;
            continue;
        }
        soft::release(memory, piece);
        if (--left == 0) {
            release(memory, begin, offset);
            return fail(std::errc::bad_address);
        }
    }
    return {};
}

void GuestBuffer::release(GuestMemory& memory, std::uint64_t begin,
                          std::uint64_t end) const noexcept {
    for (std::uint64_t offset = begin; offset < end;) {
        const auto piece = run(offset, end - offset);
        soft::release(memory, piece);
        offset += piece.size();
    }
}

std::span<std::byte> GuestBuffer::run_of_blocks(std::uint64_t offset,
                                                std::uint64_t wanted) const noexcept {
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
