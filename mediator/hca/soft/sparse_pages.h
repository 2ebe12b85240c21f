// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The translation of a region whose pages come and go (on-demand paging): those that the guest's
// driver has mapped, by their number in the region. On the poller, but for what is prepared and
// freed.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "mediator/hca/hca.h"

namespace vrdma::hca::soft {

class SparsePages {
  public:
    // 2 MiB of pages that follow each other; an entry is an address, with bits below the page's.
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

    // What unmapping has taken away: nobody's any more when all pollers have been waited for.
    struct Removed {
        Leaves leaves;
        std::vector<Iova> pages;           // of leaves that stay
        std::vector<std::uint64_t> next{}; // leaves' numbers that the range reaches into, still
    };
    // The most that one step of unmapping looks at.
    static constexpr std::size_t step_leaves = 256;

    // Page 0 holds the region's first byte, first_offset into it.
    SparsePages(const GuestMemory& memory, std::uint64_t first_offset)
        : base_{memory.at(Iova{0}, 0)}, first_offset_{first_offset} {}

    std::uint64_t page_of(std::uint64_t offset) const noexcept {
        return (first_offset_ + offset) >> VRDMA_PAGE_SHIFT;
    }

    // The longest run of adjacent host memory at offset, of at most `limit` bytes; empty where the
    // page is not mapped, or not for writing.
    std::span<std::byte> run(std::uint64_t offset, std::uint64_t limit, bool write) const noexcept;

    // As many empty leaves as a range can need.
    static Leaves prepare(std::uint64_t first, std::uint64_t count);
    // Takes what leaves it needs of the prepared.
    void map(std::uint64_t first, std::span<const Iova> pages, bool writable, Leaves& prepared);
    // Room for all that unmapping can take away, and the list of what it looks at, made on the
    // control thread: it alone changes this, by calls that it waits for.
    Removed prepare_unmap(std::uint64_t first, std::uint64_t count) const;
    // A step of it. Leaves that lie in the range go with it, as they are. True: there is more.
    bool unmap_some(std::uint64_t first, std::uint64_t count, Removed& removed);

  private:
    static constexpr std::uint64_t mapped = 1;
    static constexpr std::uint64_t writable_bit = 2;

    void unmap_leaf(std::uint64_t number, std::uint64_t first, std::uint64_t end, Removed& removed);
    // 0 where nothing is mapped.
    std::uint64_t entry(std::uint64_t page) const noexcept;
    static void clear(Leaf& leaf, std::uint64_t first, std::uint64_t end, Removed& removed);

    std::byte* const base_; // of the guest's window
    const std::uint64_t first_offset_;
    std::unordered_map<std::uint64_t, std::unique_ptr<Leaf>> leaves_;
};

} // namespace vrdma::hca::soft
