// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/memory/unused_pages.h"

#include <algorithm>
#include <iterator>

#include "mediator/hca/soft/memory/scratch_watch.h"

namespace vrdma::hca::soft {

void UnusedPages::add(SparsePages::Removed removed) {
    std::ranges::move(removed.leaves, std::back_inserter(leaves_));
    pages_.insert(pages_.end(), removed.pages.begin(), removed.pages.end());
}

bool UnusedPages::give_back(GuestMemory& memory) noexcept {
    std::uint64_t left = step_bytes;
    unsigned runs = 0;
    while (!buffers_.empty() && runs < step_runs && left != 0) {
        GuestBuffer& buffer = buffers_.back();
        if (offset_ < buffer.length()) {
            const auto run = buffer.run(offset_, std::min(left, buffer.length() - offset_));
            release(memory, run);
            offset_ += run.size();
            left -= run.size();
            ++runs;
        }
        if (offset_ == buffer.length()) {
            buffers_.pop_back();
            offset_ = 0;
        }
    }
    for (; !pages_.empty() && runs < step_runs; ++runs) {
        memory.release(pages_.back(), VRDMA_PAGE_SIZE);
        pages_.pop_back();
    }
    for (; !leaves_.empty() && runs < step_runs; runs += on_demand_leaf_pages) {
        leaves_.back()->for_each_page(
            [&](Iova page) noexcept { memory.release(page, VRDMA_PAGE_SIZE); });
        leaves_.pop_back();
    }
    return !buffers_.empty() || !pages_.empty() || !leaves_.empty();
}

} // namespace vrdma::hca::soft
