// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Event queues. The first one gets the async events.
#pragma once

#include <optional>

#include "mediator/verbs/object_table.h"
#include "mediator/verbs/resources.h"
#include "mediator/verbs/saved_state.h"
#include "mediator/verbs/use_count.h"

namespace vrdma::verbs {

struct EqState {
    static constexpr std::uint32_t version = 2;

    std::uint32_t id;
    std::uint32_t depth;
    std::uint32_t vector;
    std::uint32_t async;
    hca::EqState slice;
};

struct Eq {
    hca::EqSpec spec;
    MemoryBudget::Lease lease;
    UseCount users;
};

class EqTable {
  public:
    explicit EqTable(Resources& resources);

    Result<EqId> create(const vrdma_cmd_create_eq& cmd,
                        hca::EventKind kind = hca::EventKind::async);
    Result<> destroy(EqId id);
    Eq* find(EqId id) { return table_.find(id); }

    void save(StateWriter& writer) const;
    Result<> restore(StateReader& reader);

  private:
    Result<> check(const hca::EqSpec& spec) const;
    Result<> add(hca::EqSpec spec, Buffer buffer);
    struct Restored {
        EqState state;
        hca::EqSpec spec;
        Buffer buffer;
    };
    Result<Restored> read_one(StateReader& reader);
    Result<> restore_one(Restored& restored);

    Resources& resources_;
    DenseIds ids_;
    ObjectTable<EqId, Eq> table_;
    std::optional<EqId> async_;
};

} // namespace vrdma::verbs
