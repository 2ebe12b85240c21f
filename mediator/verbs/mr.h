// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Memory regions, known by a random key that is both lkey and rkey.
#pragma once

#include "mediator/verbs/object_table.h"
#include "mediator/verbs/pd.h"
#include "mediator/verbs/resources.h"

namespace vrdma::verbs {

struct MrState {
    static constexpr std::uint32_t version = 1;

    std::uint32_t key;
    std::uint32_t pd;
    std::uint64_t start;
    std::uint64_t length;
    std::uint32_t access_flags;
    std::uint32_t dma; // 1: no pages follow
};

struct Mr {
    hca::MrSpec spec;
    BlockBudget::Lease lease;
    UseCount::Hold pd;
};

class MrTable {
  public:
    MrTable(Resources& resources, PdTable& pds);

    Result<Key> reg(const vrdma_cmd_reg_mr& cmd);
    Result<> dereg(Key key);

    void save(StateWriter& writer) const;
    Result<> restore(StateReader& reader);

  private:
    Result<> check(const hca::MrSpec& spec) const;
    Result<Buffer> pages_of(const vrdma_cmd_reg_mr& cmd);
    Result<> add(hca::MrSpec spec, Buffer buffer);
    Result<> restore_one(StateReader& reader);

    Resources& resources_;
    PdTable& pds_;
    RandomIds keys_;
    ObjectTable<Key, Mr> table_;
};

} // namespace vrdma::verbs
