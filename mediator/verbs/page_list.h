// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The page lists of guest commands: read once, validated, and kept as translations. A list may have
// a million blocks, and a ring 65536 pages. So both are gone through in steps, between which the
// control thread serves other devices.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>

#include "mediator/base/result.h"
#include "mediator/hca/hca.h"
#include "mediator/memory/guest_memory.h"
#include "mediator/verbs/memory_budget.h"
#include "mediator/verbs/saved_state.h"
#include "vrdma/device.h"

namespace vrdma::verbs {

// A buffer of the guest: where it lies, and its share of the budget.
struct Buffer {
    hca::Translation pages;
    MemoryBudget::Lease lease;
};

// Reads the list of a buffer of `length` bytes, which must have exactly the blocks it needs.
class PageListReader {
  public:
    // The most that one step reads.
    static constexpr std::uint32_t step_pages = 64;
    static constexpr std::uint32_t step_blocks = step_pages * VRDMA_PAGE_LIST_ENTRIES;

    static Result<PageListReader> begin(GuestMemory& memory, MemoryBudget& budget,
                                        const vrdma_page_list& list, std::uint64_t first_offset,
                                        std::uint64_t length);

    // True: there is more to read. It ends with the page that exceeds a step's time.
    Result<bool> step();
    // Of a list that was read.
    Buffer take() { return std::move(buffer_); }

  private:
    using Page = std::array<Iova, VRDMA_PAGE_LIST_ENTRIES>;
    using Path = std::array<Page, VRDMA_PAGE_LIST_MAX_LEVELS>; // level 1 has the blocks

    PageListReader(GuestMemory& memory, const vrdma_page_list& list, Buffer buffer);

    std::uint64_t blocks_read() const { return buffer_.pages.blocks.size(); }
    Result<> read_run();
    Result<> read_page();
    Result<> load(unsigned level);
    Result<> check(unsigned level, std::uint64_t used) const;
    void add(std::span<const Iova> blocks);

    GuestMemory* memory_;
    vrdma_page_list list_;
    Buffer buffer_;
    std::unique_ptr<Path> path_; // the pages that lead to what is read
};

// What a command is told whose list needs another step: it has changed nothing, and is to come
// again.
inline constexpr auto comes_again = std::errc::operation_in_progress;

// Those of a device's commands, which are executed one after another.
class PageLists {
  public:
    PageLists(GuestMemory& memory, MemoryBudget& budget, hca::Slice& slice)
        : memory_{memory}, budget_{budget}, slice_{slice} {}

    Result<Buffer> read(const vrdma_page_list& list, std::uint64_t first_offset,
                        std::uint64_t length);
    // And touches its pages.
    Result<Buffer> read_ring(const vrdma_page_list& list, std::uint64_t first_offset,
                             std::uint64_t length);

    // The command that is under way has come to its end, or never will.
    void forget() { under_way_.reset(); }

  private:
    struct UnderWay {
        PageListReader reader;
        std::optional<Buffer> ring{}; // that was read, and is touched
        std::uint64_t touched = 0;
    };

    Result<> begin(const vrdma_page_list& list, std::uint64_t first_offset, std::uint64_t length);
    Result<Buffer> step();
    Result<Buffer> step_of_ring();
    Result<Buffer> finish(Result<Buffer> buffer);

    GuestMemory& memory_;
    MemoryBudget& budget_;
    hca::Slice& slice_;
    std::optional<UnderWay> under_way_;
};

void save_pages(StateWriter& writer, const hca::Translation& pages);
Result<Buffer> restore_pages(StateReader& reader, GuestMemory& memory, MemoryBudget& budget,
                             std::uint64_t length);

} // namespace vrdma::verbs
