// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// MRs: what an MR is made of, what the slice changes of it, and the calls for MRs: also for the
// pages of those on demand.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "mediator/base/result.h"
#include "mediator/base/types.h"
#include "mediator/hca/translation.h"
#include "vrdma/queue.h"

namespace vrdma::hca {

// A key without its tag (VRDMA_KEY_TAG). It identifies the region or window.
constexpr std::uint32_t name_of(Key key) noexcept {
    return VRDMA_GET(~VRDMA_KEY_TAG, key.value);
}

struct MrSpec {
    Key key;
    PdId pd;
    std::uint64_t start = 0; // guest virtual address of the first byte
    std::uint64_t length = 0;
    std::uint32_t access_flags = 0; // enum ibv_access_flags
    bool dma = false;               // addresses are IOVAs, no translation
    std::uint32_t fast_pages = 0;   // no memory yet: a WQE registers at most so many pages
    Translation pages;
};

// A region with IBV_ACCESS_ON_DEMAND has no blocks: its pages come later, in leaves of this many
// pages.
inline constexpr std::uint64_t on_demand_leaf_pages = 512;

// The registration of a region that was created without memory. Its pages are saved beside it.
struct FastMrState {
    std::uint32_t key = 0; // with its present tag
    std::uint32_t valid = 0;
    std::uint32_t access_flags = 0;
    std::uint32_t block_shift = 0;
    std::uint32_t blocks = 0;
    std::uint32_t reserved = 0;
    std::uint64_t first_offset = 0;
    std::uint64_t start = 0;
    std::uint64_t length = 0;
};

class MemoryRegions {
  public:
    virtual Result<> register_mr(MrSpec spec) = 0;
    // Replaces the region with that key. EBUSY while windows are bound to it.
    virtual Result<> reregister_mr(MrSpec spec) = 0;
    // After it returns, the key gives no access. EBUSY while windows are bound to it.
    virtual Result<> deregister_mr(Key key) = 0;

    // map_pages() provides pages of a region with IBV_ACCESS_ON_DEMAND, from page number `first`
    // on. refuse_pages() reports that these pages do not exist: messages that wait for them fail.
    virtual void map_pages(Key key, std::uint64_t first, std::span<const Iova> pages,
                           bool writable) = 0;
    virtual void refuse_pages(Key key, std::uint64_t first, std::uint64_t count) = 0;
    // After it returns, the pages are not accessed. Leaves that lie in the range are freed.
    virtual void unmap_pages(Key key, std::uint64_t first, std::uint64_t count) = 0;

    virtual FastMrState save_fast_mr(Key key) const = 0;
    virtual std::vector<Iova> save_fast_pages(Key key) const = 0;
    virtual Result<> restore_fast_mr(Key key, const FastMrState& state,
                                     std::span<const Iova> pages) = 0;

  protected:
    ~MemoryRegions() = default;
};

} // namespace vrdma::hca
