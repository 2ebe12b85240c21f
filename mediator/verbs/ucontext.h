// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// User contexts. Each owns objects, and has the doorbell page of its own number. Number 0 belongs
// to the guest's kernel and always exists.
#pragma once

#include <span>

#include "mediator/verbs/object_table.h"
#include "mediator/verbs/resources.h"
#include "mediator/verbs/saved_state.h"
#include "mediator/verbs/use_count.h"
#include "vrdma/queue.h"

namespace vrdma::verbs {

inline constexpr UcontextId kernel{0};

struct UcontextState {
    static constexpr std::uint32_t version = 1;

    std::uint32_t id;
};

struct Ucontext {
    UseCount users;
};

class UcontextTable {
  public:
    UcontextTable(Resources& resources, std::span<vrdma_doorbell_page> doorbells);

    Result<UcontextId> alloc();
    Result<> dealloc(UcontextId id);
    Ucontext* find(UcontextId id) { return id == kernel ? &kernels_own_ : table_.find(id); }

    void save(StateWriter& writer) const;
    Result<> restore(StateReader& reader);

  private:
    Result<> restore_one(StateReader& reader);

    std::span<vrdma_doorbell_page> doorbells_;
    const std::uint32_t limit_;
    DenseIds ids_;
    Ucontext kernels_own_; // always exists
    ObjectTable<UcontextId, Ucontext> table_;
};

} // namespace vrdma::verbs
