// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Pages of former objects that nobody uses any more. Giving them back takes a system call for each
// run of pages, and a region may have a million runs. So it is done in steps, between which the
// control thread serves other devices.
#pragma once

#include <vector>

#include "mediator/hca/soft/memory/guest_buffer.h"
#include "mediator/hca/soft/memory/sparse_pages.h"

namespace vrdma::hca::soft {

class UnusedPages {
  public:
    // The limits of what one step gives back.
    static constexpr unsigned step_runs = 256;
    static constexpr std::uint64_t step_bytes = 1 << 26;

    void add(GuestBuffer buffer) { buffers_.push_back(std::move(buffer)); }
    void add(SparsePages::Removed removed);

    // Returns true if there is more.
    bool give_back(GuestMemory& memory) noexcept;

  private:
    std::vector<GuestBuffer> buffers_;
    std::uint64_t offset_ = 0; // up to here, the last buffer was given back
    SparsePages::Leaves leaves_;
    std::vector<Iova> pages_;
};

} // namespace vrdma::hca::soft
