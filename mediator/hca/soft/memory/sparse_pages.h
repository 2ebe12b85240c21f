// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The translation of a region with on-demand paging: the pages that the guest's driver has mapped,
// by their number in the region. Used on the poller. Only preparing and freeing is done elsewhere.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "mediator/hca/memory_region.h"
#include "mediator/memory/guest_memory.h"

namespace vrdma::hca::soft {

class SparsePages {
  public:
    // 2 MiB of consecutive pages. An entry is the address of a page, with flags in its low bits.
    struct Leaf {
        std::array<std::uint64_t, on_demand_leaf_pages> entries{};

        template <typename Call>
        void for_each_page(Call&& call) const noexcept {
            for (const std::uint64_t entry : entries) {
                if (entry != 0) {
                    call(Iova{entry & ~std::uint64_t{VRDMA_PAGE_SIZE - 1}});
                }
            }
        }
    };
    using Leaves = std::vector<std::unique_ptr<Leaf>>;

    // The parts that unmapping has removed. They are unused once the caller has waited for all
    // pollers.
    struct Removed {
        Leaves leaves;
        std::vector<Iova> pages;           // of leaves that stay
        std::vector<std::uint64_t> next{}; // numbers of leaves in the range, still to look at
    };
    // The maximum number of leaves that one step of unmapping looks at.
    static constexpr std::size_t step_leaves = 256;

    // The region's first byte lies in page 0, at first_offset.
    SparsePages(const GuestMemory& memory, std::uint64_t first_offset)
        : base_{memory.at(Iova{0}, 0)}, first_offset_{first_offset} {}

    std::uint64_t page_of(std::uint64_t offset) const noexcept {
        return (first_offset_ + offset) >> VRDMA_PAGE_SHIFT;
    }

    // The longest run of adjacent host memory at offset, of at most `limit` bytes; empty if the
    // page is not mapped, or not mapped for writing.
    std::span<std::byte> run(std::uint64_t offset, std::uint64_t limit, bool write) const noexcept;

    // Allocates as many empty leaves as a range can need.
    static Leaves prepare(std::uint64_t first, std::uint64_t count);
    // Takes the leaves that it needs from `prepared`.
    void map(std::uint64_t first, std::span<const Iova> pages, bool writable, Leaves& prepared);
    // Makes room for all that unmapping can remove, and lists the leaves to look at. Called on the
    // control thread: only its calls, for which it waits, change the translation.
    Removed prepare_unmap(std::uint64_t first, std::uint64_t count) const;
    // One step of unmapping. Leaves that lie completely in the range are removed as they are.
    // Returns true if there is more.
    bool unmap_some(std::uint64_t first, std::uint64_t count, Removed& removed);

  private:
    static constexpr std::uint64_t mapped = 1;
    static constexpr std::uint64_t writable_bit = 2;

    void unmap_leaf(std::uint64_t number, std::uint64_t first, std::uint64_t end, Removed& removed);
    // 0 if nothing is mapped.
    std::uint64_t entry(std::uint64_t page) const noexcept;
    static void clear(Leaf& leaf, std::uint64_t first, std::uint64_t end, Removed& removed);

    std::byte* const base_; // of the guest's window
    const std::uint64_t first_offset_;
    std::unordered_map<std::uint64_t, std::unique_ptr<Leaf>> leaves_;
};

} // namespace vrdma::hca::soft
