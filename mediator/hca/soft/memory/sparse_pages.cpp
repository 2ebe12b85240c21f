// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/memory/sparse_pages.h"

#include <algorithm>

namespace vrdma::hca::soft {
namespace {

constexpr std::uint64_t leaf_pages = on_demand_leaf_pages;
constexpr std::uint64_t in_page = VRDMA_PAGE_SIZE - 1;

constexpr std::uint64_t end_of(std::uint64_t first, std::uint64_t count) noexcept {
    return first + std::min(count, UINT64_MAX - first);
}

} // namespace

std::uint64_t SparsePages::entry(std::uint64_t page) const noexcept {
    const auto leaf = leaves_.find(page / leaf_pages);
    return leaf == leaves_.end() ? 0 : leaf->second->entries[page % leaf_pages];
}

std::span<std::byte> SparsePages::run(std::uint64_t offset, std::uint64_t limit,
                                      bool write) const noexcept {
    const std::uint64_t wanted = mapped | (write ? writable_bit : 0);
    const std::uint64_t place = first_offset_ + offset;
    std::uint64_t page = place >> VRDMA_PAGE_SHIFT;
    const std::uint64_t first = entry(page);
    if ((first & wanted) != wanted) {
        return {};
    }
    std::uint64_t length = VRDMA_PAGE_SIZE - (place & in_page);
    std::uint64_t last = first & ~in_page;
    for (; length < limit; length += VRDMA_PAGE_SIZE) {
        const std::uint64_t next = entry(++page);
        if ((next & wanted) != wanted || (next & ~in_page) != last + VRDMA_PAGE_SIZE) {
            break;
        }
        last += VRDMA_PAGE_SIZE;
    }
    return {base_ + (first & ~in_page) + (place & in_page), std::min(length, limit)};
}

SparsePages::Leaves SparsePages::prepare(std::uint64_t first, std::uint64_t count) {
    Leaves leaves((first % leaf_pages + count + leaf_pages - 1) / leaf_pages);
    std::ranges::generate(leaves, [] { return std::make_unique<Leaf>(); });
    return leaves;
}

void SparsePages::map(std::uint64_t first, std::span<const Iova> pages, bool writable,
                      Leaves& prepared) {
    const std::uint64_t bits = mapped | (writable ? writable_bit : 0);
    for (std::size_t i = 0; i < pages.size(); ++i) {
        auto& leaf = leaves_[(first + i) / leaf_pages];
        if (!leaf) {
            leaf = std::move(prepared.back());
            prepared.pop_back();
        }
        leaf->entries[(first + i) % leaf_pages] = raw(pages[i]) | bits;
    }
}

// A region has no more leaves than the device's budget allows, however long the range is. A short
// range has few leaves, however many the region has.
SparsePages::Removed SparsePages::prepare_unmap(std::uint64_t first, std::uint64_t count) const {
    Removed removed;
    const std::uint64_t end = end_of(first, count);
    const std::uint64_t from = first / leaf_pages;
    const std::uint64_t to = end / leaf_pages + (end % leaf_pages != 0 ? 1 : 0);
    if (to - from < leaves_.size()) {
        for (std::uint64_t number = from; number < to; ++number) {
            if (leaves_.contains(number)) {
                removed.next.push_back(number);
            }
        }
    } else {
        for (const auto& [number, leaf] : leaves_) {
            if (number >= from && number < to) {
                removed.next.push_back(number);
            }
        }
    }
    removed.leaves.reserve(removed.next.size());
    removed.pages.reserve(2 * leaf_pages); // of the first and of the last leaf
    return removed;
}

void SparsePages::clear(Leaf& leaf, std::uint64_t first, std::uint64_t end, Removed& removed) {
    for (std::uint64_t i = first; i < end; ++i) {
        if (leaf.entries[i] != 0) {
            removed.pages.push_back(Iova{leaf.entries[i] & ~in_page});
            leaf.entries[i] = 0;
        }
    }
}

bool SparsePages::unmap_some(std::uint64_t first, std::uint64_t count, Removed& removed) {
    for (std::size_t i = 0; i < step_leaves && !removed.next.empty(); ++i) {
        unmap_leaf(removed.next.back(), first, end_of(first, count), removed);
        removed.next.pop_back();
    }
    return !removed.next.empty();
}

void SparsePages::unmap_leaf(std::uint64_t number, std::uint64_t first, std::uint64_t end,
                             Removed& removed) {
    const auto leaf = leaves_.find(number);
    const std::uint64_t begin = number * leaf_pages;
    const std::uint64_t from = std::clamp(first, begin, begin + leaf_pages);
    const std::uint64_t to = std::clamp(end, begin, begin + leaf_pages);
    if (to - from == leaf_pages) {
        removed.leaves.push_back(std::move(leaf->second));
        leaves_.erase(leaf);
    } else {
        clear(*leaf->second, from - begin, to - begin, removed);
    }
}

} // namespace vrdma::hca::soft
