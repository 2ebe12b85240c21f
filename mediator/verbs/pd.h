// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Protection domains: which memory a queue pair may reach.
#pragma once

#include "mediator/verbs/ucontext.h"

namespace vrdma::verbs {

struct PdState {
    static constexpr std::uint32_t version = 1;

    std::uint32_t id;
    std::uint32_t ucontext;
};

struct Pd {
    UcontextId ucontext;
    UseCount::Hold owner;
    UseCount users;
};

class PdTable {
  public:
    PdTable(Resources& resources, UcontextTable& ucontexts);

    Result<PdId> alloc(UcontextId owner);
    Result<> dealloc(PdId id);
    Pd* find(PdId id) { return table_.find(id); }
    std::size_t size() const { return table_.size(); }

    void save(StateWriter& writer) const;
    Result<> restore(StateReader& reader);

  private:
    Result<> restore_one(StateReader& reader);

    UcontextTable& ucontexts_;
    DenseIds ids_;
    ObjectTable<PdId, Pd> table_;
};

} // namespace vrdma::verbs
