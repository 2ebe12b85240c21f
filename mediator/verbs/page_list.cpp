// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/verbs/page_list.h"

#include <algorithm>
#include <limits>

#include "mediator/base/step_time.h"
#include "mediator/memory/fault_times.h"
#include "mediator/verbs/guest_copy.h"

namespace vrdma::verbs {
namespace {

// The most that one command makes the control thread read: 64 GiB of 4 KiB blocks.
constexpr std::uint32_t max_blocks_per_buffer = 1u << 24;

// The faults of one step must fit into the records from which the control thread counts them. A
// step of a command for a ring reads a list and touches pages. A page may be missing twice, and
// each time the scratch page takes a fault of its own.
constexpr std::size_t faults_per_page = 5;
static_assert((PageListReader::step_pages + VRDMA_PAGE_LIST_MAX_LEVELS + hca::ring_pages_a_step) *
                  faults_per_page <
              FaultTimes::room);

// How many blocks a page of a level leads to.
constexpr std::uint64_t blocks_below(unsigned level) {
    std::uint64_t blocks = 1;
    for (; level > 0; --level) {
        blocks *= VRDMA_PAGE_LIST_ENTRIES;
    }
    return blocks;
}

// How many pages a level has. Level 0 is the blocks themselves.
constexpr std::uint64_t pages_of(unsigned level, std::uint64_t blocks) {
    return (blocks + blocks_below(level) - 1) / blocks_below(level);
}

// How many blocks the buffer has, or 0 if the numbers do not fit each other.
std::uint64_t blocks_of(std::uint64_t first_offset, std::uint64_t length, unsigned shift) {
    const std::uint64_t block = 1ull << shift;
    if (length == 0 || first_offset >= block ||
        length > std::numeric_limits<std::uint64_t>::max() - first_offset - block) {
        return 0;
    }
    return (first_offset + length + block - 1) >> shift;
}

// Zero marks an unused entry, except that a large block may begin at the bottom of memory.
bool valid_address(const GuestMemory& memory, std::uint64_t address, unsigned shift) {
    const std::uint64_t size = 1ull << shift;
    return (address != 0 || shift > VRDMA_PAGE_SHIFT) && (address & (size - 1)) == 0 &&
           memory.at(Iova{address}, size) != nullptr;
}

constexpr bool valid_shift(std::uint64_t shift) {
    return shift >= VRDMA_PAGE_SHIFT && shift <= VRDMA_MAX_PAGE_SHIFT;
}

} // namespace

PageListReader::PageListReader(GuestMemory& memory, const vrdma_page_list& list, Buffer buffer)
    : memory_{&memory}, list_{list}, buffer_{std::move(buffer)} {
    if (list.levels != 0) {
        path_ = std::make_unique_for_overwrite<Path>();
    }
    buffer_.pages.blocks = hca::Blocks::reserve(list.count);
    buffer_.pages.order = hca::Translation::Order::adjacent; // until a gap is met
}

Result<PageListReader> PageListReader::begin(GuestMemory& memory, MemoryBudget& budget,
                                             const vrdma_page_list& list,
                                             std::uint64_t first_offset, std::uint64_t length) {
    if (list.reserved != 0 || !valid_shift(list.page_shift) ||
        list.levels > VRDMA_PAGE_LIST_MAX_LEVELS || list.count == 0 ||
        list.count != blocks_of(first_offset, length, list.page_shift)) {
        return fail(std::errc::invalid_argument);
    }
    if (list.count > max_blocks_per_buffer) {
        return fail(std::errc::not_enough_memory);
    }
    auto lease = budget.take_blocks(list.count);
    if (!lease) {
        return fail(lease.error());
    }
    if (list.levels != 0 && pages_of(list.levels, list.count) != 1) {
        return fail(std::errc::invalid_argument);
    }
    if (list.levels != 0 && !valid_address(memory, list.root, VRDMA_PAGE_SHIFT)) {
        return fail(std::errc::bad_address);
    }
    return PageListReader{memory, list,
                          Buffer{{{}, list.page_shift, first_offset, length}, std::move(*lease)}};
}

Result<bool> PageListReader::step() {
    const std::uint64_t end = std::min<std::uint64_t>(list_.count, blocks_read() + step_blocks);
    const StepTime time;
    do {
        if (const auto read = list_.levels == 0 ? read_run() : read_page(); !read) {
            return fail(read.error());
        }
    } while (blocks_read() < end && !time.over());
    return blocks_read() < list_.count;
}

// Adds as many blocks of a contiguous run as a page of a list has.
Result<> PageListReader::read_run() {
    Page page;
    const auto count = std::min<std::uint64_t>(page.size(), list_.count - blocks_read());
    for (std::uint64_t i = 0; i < count; ++i) {
        const std::uint64_t address = list_.root + ((blocks_read() + i) << list_.page_shift);
        if (!valid_address(*memory_, address, list_.page_shift)) {
            return fail(std::errc::bad_address);
        }
        page[i] = Iova{address};
    }
    add(std::span{page}.first(count));
    return {};
}

// Reads the next page of level 1, whose entries are blocks. First reads the pages of upper levels
// that begin there as well.
Result<> PageListReader::read_page() {
    for (unsigned level = list_.levels; level > 0; --level) {
        if (blocks_read() % blocks_below(level) == 0) {
            if (const auto loaded = load(level); !loaded) {
                return loaded;
            }
        }
    }
    const std::uint64_t left = list_.count - blocks_read();
    const Page& page = path_->front();
    add(std::span{page}.first(std::min<std::uint64_t>(page.size(), left)));
    return {};
}

Result<> PageListReader::load(unsigned level) {
    const std::uint64_t number = blocks_read() / blocks_below(level);
    const Iova at = level == list_.levels ? Iova{list_.root}
                                          : (*path_)[level][number % VRDMA_PAGE_LIST_ENTRIES];
    const auto page = std::as_writable_bytes(std::span{(*path_)[level - 1]});
    if (const auto copied = copy_from_guest(*memory_, at, page); !copied) {
        return copied;
    }
    memory_->release(at, page.size());
    const std::uint64_t entries = pages_of(level - 1, list_.count);
    return check(level, std::min<std::uint64_t>(entries - number * VRDMA_PAGE_LIST_ENTRIES,
                                                VRDMA_PAGE_LIST_ENTRIES));
}

// The entries behind those in use must be zero.
Result<> PageListReader::check(unsigned level, std::uint64_t used) const {
    const Page& page = (*path_)[level - 1];
    const unsigned shift = level == 1 ? list_.page_shift : VRDMA_PAGE_SHIFT;
    const auto entries = std::span{page}.first(used);
    if (!std::ranges::all_of(
            entries, [&](Iova entry) { return valid_address(*memory_, raw(entry), shift); })) {
        return fail(std::errc::bad_address);
    }
    const bool clean = std::all_of(page.begin() + static_cast<std::ptrdiff_t>(used), page.end(),
                                   [](Iova entry) { return entry == Iova{0}; });
    return clean ? Result<>{} : fail(std::errc::invalid_argument);
}

void PageListReader::add(std::span<const Iova> blocks) {
    hca::Translation& pages = buffer_.pages;
    const std::uint64_t size = 1ull << list_.page_shift;
    const auto gap = [size](Iova first, Iova second) { return second != first + size; };
    const bool follows =
        pages.blocks.empty() || !gap(pages.blocks[pages.blocks.size() - 1], blocks.front());
    if (!follows || std::adjacent_find(blocks.begin(), blocks.end(), gap) != blocks.end()) {
        pages.order = hca::Translation::Order::scattered;
    }
    pages.blocks.append(blocks);
}

Result<Buffer> PageLists::read(const vrdma_page_list& list, std::uint64_t first_offset,
                               std::uint64_t length) {
    return finish(begin(list, first_offset, length).and_then([this] { return step(); }));
}

Result<Buffer> PageLists::read_ring(const vrdma_page_list& list, std::uint64_t first_offset,
                                    std::uint64_t length) {
    return finish(begin(list, first_offset, length).and_then([this] { return step_of_ring(); }));
}

// Does nothing for a command that has come again, because its list is under way.
Result<> PageLists::begin(const vrdma_page_list& list, std::uint64_t first_offset,
                          std::uint64_t length) {
    if (under_way_) {
        return {};
    }
    return PageListReader::begin(memory_, budget_, list, first_offset, length)
        .map([this](PageListReader reader) { under_way_.emplace(UnderWay{std::move(reader)}); });
}

Result<Buffer> PageLists::step() {
    const auto more = under_way_->reader.step();
    if (!more) {
        return fail(more.error());
    }
    return *more ? Result<Buffer>{fail(comes_again)} : under_way_->reader.take();
}

Result<Buffer> PageLists::step_of_ring() {
    if (!under_way_->ring) {
        auto read = step();
        if (!read) {
            return read;
        }
        under_way_->ring = std::move(*read);
    }
    Buffer& ring = *under_way_->ring;
    const auto more = slice_.touch(ring.pages, under_way_->touched);
    if (!more) {
        return fail(more.error());
    }
    if (*more) {
        return fail(comes_again);
    }
    ring.pages.touched = true;
    return std::move(ring);
}

Result<Buffer> PageLists::finish(Result<Buffer> buffer) {
    if (buffer || buffer.error() != comes_again) {
        forget();
    }
    return buffer;
}

namespace {

struct PagesState {
    std::uint64_t first_offset;
    std::uint32_t block_shift;
    std::uint32_t blocks;
};

} // namespace

void save_pages(StateWriter& writer, const hca::Translation& pages) {
    save_ring(writer, pages, pages.length);
}

void save_ring(StateWriter& writer, const hca::Translation& pages, std::uint64_t length) {
    const auto blocks = blocks_of(pages.first_offset, length, pages.block_shift);
    writer.put(
        PagesState{pages.first_offset, pages.block_shift, static_cast<std::uint32_t>(blocks)});
    writer.put_all(std::span<const Iova>{pages.blocks}.first(blocks));
}

Result<Buffer> restore_pages(StateReader& reader, GuestMemory& memory, MemoryBudget& budget,
                             std::uint64_t length) {
    const auto state = reader.take<PagesState>();
    if (!state || !valid_shift(state->block_shift) || state->blocks == 0 ||
        state->blocks != blocks_of(state->first_offset, length, state->block_shift)) {
        return fail(std::errc::invalid_argument);
    }
    const auto bytes = reader.take_bytes(state->blocks * sizeof(Iova));
    if (!bytes) {
        return fail(bytes.error());
    }
    auto lease = budget.take_blocks(state->blocks);
    if (!lease) {
        return fail(lease.error());
    }
    auto blocks = hca::Blocks::reserve(state->blocks);
    std::ranges::copy(*bytes, std::as_writable_bytes(blocks.refill(state->blocks)).begin());
    const bool valid = std::ranges::all_of(
        blocks, [&](Iova block) { return valid_address(memory, raw(block), state->block_shift); });
    if (!valid) {
        return fail(std::errc::bad_address);
    }
    return Buffer{{std::move(blocks), state->block_shift, state->first_offset, length},
                  std::move(*lease)};
}

} // namespace vrdma::verbs
