// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The page lists of guest commands: read once, validated, and kept as translations. A list may have
// a million blocks, and a ring 65536 pages. So lists are read and rings are touched in steps.
// Between steps the control thread serves other devices.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>

#include "mediator/base/result.h"
#include "mediator/hca/slice.h"
#include "mediator/memory/guest_memory.h"
#include "mediator/verbs/memory_budget.h"
#include "mediator/verbs/saved_state.h"
#include "vrdma/device.h"

namespace vrdma::verbs {

// A buffer of the guest: its pages, and its share of the budget.
struct Buffer {
    hca::Translation pages;
    MemoryBudget::Lease lease;
};

// Reads the list of a buffer of `length` bytes. The list must have exactly as many blocks as the
// buffer needs.
class PageListReader {
  public:
    // The most that one step reads.
    static constexpr std::uint32_t step_pages = 64;
    static constexpr std::uint32_t step_blocks = step_pages * VRDMA_PAGE_LIST_ENTRIES;

    static Result<PageListReader> begin(GuestMemory& memory, MemoryBudget& budget,
                                        const vrdma_page_list& list, std::uint64_t first_offset,
                                        std::uint64_t length);

    // Returns true if there is more to read. A step ends with the page that exceeds its time.
    Result<bool> step();
    // Returns the buffer once the whole list was read.
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
    std::unique_ptr<Path> path_; // from the root to the blocks that are read
};

// The error of a command whose list needs another step. The command has changed nothing yet, and
// the caller must run it again.
inline constexpr auto comes_again = std::errc::operation_in_progress;

// The page lists of a device's commands, which are executed one after another.
class PageLists {
  public:
    PageLists(GuestMemory& memory, MemoryBudget& budget, hca::Slice& slice)
        : memory_{memory}, budget_{budget}, slice_{slice} {}

    Result<Buffer> read(const vrdma_page_list& list, std::uint64_t first_offset,
                        std::uint64_t length);
    // Also touches the ring's pages.
    Result<Buffer> read_ring(const vrdma_page_list& list, std::uint64_t first_offset,
                             std::uint64_t length);

    // Is called when the command that is under way has ended, or was abandoned.
    void forget() { under_way_.reset(); }

  private:
    struct UnderWay {
        PageListReader reader;
        std::optional<Buffer> ring{}; // its list was read, and its pages are touched
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
// The same for a ring of `length` bytes. A ring of PVRDMA can have pages that it does not need.
void save_ring(StateWriter& writer, const hca::Translation& pages, std::uint64_t length);
Result<Buffer> restore_pages(StateReader& reader, GuestMemory& memory, MemoryBudget& budget,
                             std::uint64_t length);

} // namespace vrdma::verbs
