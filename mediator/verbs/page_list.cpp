// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/verbs/page_list.h"

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "mediator/verbs/guest_copy.h"

namespace vrdma::verbs {
namespace {

using Page = std::array<std::uint64_t, VRDMA_PAGE_LIST_ENTRIES>;

// The most that one command makes the control thread read: 64 GiB of 4 KiB blocks.
constexpr std::uint32_t max_blocks_per_buffer = 1u << 24;

// Radix pages on the way to the blocks are read level by level: the level's pages are the entries
// of the one above, beginning with the root.
constexpr std::uint64_t pages_for(std::uint64_t entries) {
    return (entries + VRDMA_PAGE_LIST_ENTRIES - 1) / VRDMA_PAGE_LIST_ENTRIES;
}

// The blocks of the buffer, or nothing where the numbers do not fit each other.
std::uint64_t blocks_of(std::uint64_t first_offset, std::uint64_t length, unsigned shift) {
    const std::uint64_t block = 1ull << shift;
    if (length == 0 || first_offset >= block ||
        length > std::numeric_limits<std::uint64_t>::max() - first_offset - block) {
        return 0;
    }
    return (first_offset + length + block - 1) >> shift;
}

// Zero stands for an unused entry, except that a large block may begin at the bottom of memory.
bool valid_address(const GuestMemory& memory, std::uint64_t address, unsigned shift) {
    const std::uint64_t size = 1ull << shift;
    return (address != 0 || shift > VRDMA_PAGE_SHIFT) && (address & (size - 1)) == 0 &&
           memory.at(Iova{address}, size) != nullptr;
}

// Copies `count` entries out of one page into `entries`. What is behind them must be unused.
Result<> read_page(GuestMemory& memory, Iova at, std::size_t count, unsigned shift,
                   std::vector<Iova>& entries) {
    Page page;
    if (const auto copied = copy_from_guest(memory, at, std::as_writable_bytes(std::span{page}));
        !copied) {
        return copied;
    }
    memory.release(at, sizeof(page));
    for (std::size_t i = 0; i < page.size(); ++i) {
        if (i >= count) {
            if (page[i] != 0) {
                return fail(std::errc::invalid_argument);
            }
        } else if (valid_address(memory, page[i], shift)) {
            entries.push_back(Iova{page[i]});
        } else {
            return fail(std::errc::bad_address);
        }
    }
    return {};
}

Result<std::vector<Iova>> read_level(GuestMemory& memory, const std::vector<Iova>& pages,
                                     std::uint64_t count, unsigned shift) {
    std::vector<Iova> entries;
    entries.reserve(count);
    for (const Iova page : pages) {
        const std::uint64_t left = count - entries.size();
        const auto here = std::min<std::uint64_t>(left, VRDMA_PAGE_LIST_ENTRIES);
        if (const auto read = read_page(memory, page, here, shift, entries); !read) {
            return fail(read.error());
        }
    }
    return entries;
}

Result<std::vector<Iova>> read_radix(GuestMemory& memory, const vrdma_page_list& list) {
    std::array<std::uint64_t, VRDMA_PAGE_LIST_MAX_LEVELS + 1> counts{list.count};
    for (unsigned level = 1; level <= list.levels; ++level) {
        counts[level] = pages_for(counts[level - 1]);
    }
    if (counts[list.levels] != 1) {
        return fail(std::errc::invalid_argument);
    }
    if (!valid_address(memory, list.root, VRDMA_PAGE_SHIFT)) {
        return fail(std::errc::bad_address);
    }
    std::vector<Iova> pages{Iova{list.root}};
    for (unsigned level = list.levels; level > 0; --level) {
        const unsigned shift = level == 1 ? list.page_shift : VRDMA_PAGE_SHIFT;
        auto entries = read_level(memory, pages, counts[level - 1], shift);
        if (!entries) {
            return entries;
        }
        pages = std::move(*entries);
    }
    return pages;
}

Result<std::vector<Iova>> contiguous(const GuestMemory& memory, const vrdma_page_list& list) {
    const std::uint64_t block = 1ull << list.page_shift;
    std::vector<Iova> blocks;
    blocks.reserve(list.count);
    for (std::uint64_t i = 0; i < list.count; ++i) {
        const std::uint64_t address = list.root + i * block;
        if (!valid_address(memory, address, list.page_shift)) {
            return fail(std::errc::bad_address);
        }
        blocks.push_back(Iova{address});
    }
    return blocks;
}

constexpr bool valid_shift(std::uint64_t shift) {
    return shift >= VRDMA_PAGE_SHIFT && shift <= VRDMA_MAX_PAGE_SHIFT;
}

} // namespace

Result<Buffer> read_page_list(GuestMemory& memory, BlockBudget& budget, const vrdma_page_list& list,
                              std::uint64_t first_offset, std::uint64_t length) {
    if (list.reserved != 0 || !valid_shift(list.page_shift) ||
        list.levels > VRDMA_PAGE_LIST_MAX_LEVELS || list.count == 0 ||
        list.count != blocks_of(first_offset, length, list.page_shift)) {
        return fail(std::errc::invalid_argument);
    }
    if (list.count > max_blocks_per_buffer) {
        return fail(std::errc::not_enough_memory);
    }
    auto lease = budget.take(list.count);
    if (!lease) {
        return fail(lease.error());
    }
    auto blocks = list.levels == 0 ? contiguous(memory, list) : read_radix(memory, list);
    if (!blocks) {
        return fail(blocks.error());
    }
    return Buffer{{std::move(*blocks), list.page_shift, first_offset, length}, std::move(*lease)};
}

namespace {

struct PagesState {
    std::uint64_t first_offset;
    std::uint32_t block_shift;
    std::uint32_t blocks;
};

} // namespace

void save_pages(StateWriter& writer, const hca::Translation& pages) {
    writer.put(PagesState{pages.first_offset, pages.block_shift,
                          static_cast<std::uint32_t>(pages.blocks.size())});
    writer.put_all(std::span{pages.blocks});
}

Result<Buffer> restore_pages(StateReader& reader, GuestMemory& memory, BlockBudget& budget,
                             std::uint64_t length) {
    const auto state = reader.take<PagesState>();
    if (!state || !valid_shift(state->block_shift) || state->blocks == 0 ||
        state->blocks != blocks_of(state->first_offset, length, state->block_shift)) {
        return fail(std::errc::invalid_argument);
    }
    auto lease = budget.take(state->blocks);
    if (!lease) {
        return fail(lease.error());
    }
    auto blocks = reader.take_all<Iova>(state->blocks);
    if (!blocks) {
        return fail(blocks.error());
    }
    const bool valid = std::ranges::all_of(
        *blocks, [&](Iova block) { return valid_address(memory, raw(block), state->block_shift); });
    if (!valid) {
        return fail(std::errc::bad_address);
    }
    return Buffer{{std::move(*blocks), state->block_shift, state->first_offset, length},
                  std::move(*lease)};
}

} // namespace vrdma::verbs
