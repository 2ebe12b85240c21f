// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Counter sets. A set counts for the QPs that the guest has bound to it ("rdma statistic qp bind").
// Each QP knows its set (qp.h). Counts are not saved, like those of all counters.
#pragma once

#include "mediator/verbs/object_table.h"
#include "mediator/verbs/resources.h"
#include "mediator/verbs/saved_state.h"
#include "mediator/verbs/use_count.h"

namespace vrdma::verbs {

struct CounterSetState {
    static constexpr std::uint32_t version = 1;

    std::uint32_t id;
};

struct CounterSet {
    UseCount users;
};

class CounterSetTable {
  public:
    explicit CounterSetTable(Resources& resources);

    Result<CounterSetId> alloc();
    Result<> dealloc(CounterSetId id);
    Result<vrdma_counters> counters(CounterSetId id) const;
    CounterSet* find(CounterSetId id) { return table_.find(id); }

    void save(StateWriter& writer) const;
    Result<> restore(StateReader& reader);

  private:
    Result<> add(CounterSetId id);
    Result<> restore_one(StateReader& reader);

    Resources& resources_;
    DenseIds ids_;
    ObjectTable<CounterSetId, CounterSet> table_;
};

} // namespace vrdma::verbs
