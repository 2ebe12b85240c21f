// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Memory regions. A region has a random key that is both lkey and rkey. Regions for fast
// registration get their memory, and a key with another tag, by WQEs.
#pragma once

#include <map>

#include "mediator/verbs/key_space.h"
#include "mediator/verbs/pd.h"
#include "mediator/verbs/resources.h"

namespace vrdma::verbs {

// The data behind a record depends on the region. If fast_pages is not 0, hca::FastMrState and its
// blocks follow. If the region is on demand, the offset of its first byte follows. If dma is 1 or
// the length is 0, nothing follows. For all other regions, their pages follow.
struct MrState {
    static constexpr std::uint32_t version = 2;

    std::uint32_t key; // as it was given out
    std::uint32_t pd;
    std::uint64_t start;
    std::uint64_t length;
    std::uint32_t access_flags;
    std::uint32_t dma;        // 0 or 1
    std::uint32_t fast_pages; // of a region for fast registration
    std::uint32_t reserved;
};

struct Mr {
    hca::MrSpec spec;
    MemoryBudget::Lease lease;
    UseCount::Hold pd;
    // For a region with on-demand paging: the leases of its leaves, by the leaves' numbers.
    std::map<std::uint64_t, MemoryBudget::Lease> leaves{};
};

class MrTable {
  public:
    MrTable(Resources& resources, PdTable& pds, KeySpace& keys);

    Result<Key> reg(const vrdma_cmd_reg_mr& cmd);
    Result<> rereg(const vrdma_cmd_rereg_mr& cmd);
    Result<Key> alloc(const vrdma_cmd_alloc_mr& cmd);
    Result<> dereg(Key key);

    Result<> map_pages(const vrdma_cmd_map_pages& cmd);
    Result<> unmap_pages(const vrdma_cmd_unmap_pages& cmd);

    std::size_t size() const { return table_.size(); }
    void save(StateWriter& writer) const;
    // Writes only the lasting records. The device may run meanwhile.
    void save_lasting(StateWriter& writer) const;
    Result<> restore(StateReader& reader);

  private:
    Result<> check(const hca::MrSpec& spec) const;
    Result<> check_new(const hca::MrSpec& spec) const;
    Result<Buffer> pages_of(const vrdma_cmd_reg_mr& cmd);
    Result<Key> take_key(const hca::MrSpec& spec);
    Result<Key> create(hca::MrSpec spec, Buffer buffer);
    Result<> add(hca::MrSpec spec, MemoryBudget::Lease lease);
    Result<> change(Mr& mr, hca::MrSpec spec, Buffer buffer);
    void save_one(StateWriter& writer, Key key) const;
    void save_fast(StateWriter& writer, Key key) const;
    Result<> restore_fast(StateReader& reader, hca::MrSpec spec);
    Result<Buffer> restore_buffer(StateReader& reader, const hca::MrSpec& spec);
    Result<> restore_one(StateReader& reader);

    Mr* find_on_demand(Key key);
    Result<> take_leaves(Mr& mr, std::uint64_t first, std::uint64_t count);
    void unmap(Mr& mr, std::uint64_t first, std::uint64_t count);

    Resources& resources_;
    PdTable& pds_;
    KeySpace& keys_;
    using Leaves = decltype(Mr::leaves);
    const std::uint64_t leaf_cost_; // besides its blocks
    ObjectTable<Key, Mr> table_;
};

} // namespace vrdma::verbs
