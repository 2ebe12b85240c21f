// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Completion queues.
#pragma once

#include "mediator/verbs/eq.h"
#include "mediator/verbs/ucontext.h"

namespace vrdma::verbs {

struct CqState {
    static constexpr std::uint32_t version = 2;

    std::uint32_t id;
    std::uint32_t ucontext;
    std::uint32_t eq;
    std::uint32_t depth;
    std::uint32_t flags;
    std::uint32_t moderation; // count | period << 16
    hca::CqState slice;
};

struct Cq {
    UcontextId ucontext;
    hca::CqSpec spec;
    MemoryBudget::Lease lease;
    UseCount::Hold owner;
    UseCount::Hold eq;
    UseCount users;
};

class CqTable {
  public:
    CqTable(Resources& resources, UcontextTable& ucontexts, EqTable& eqs);

    Result<Cqn> create(const vrdma_cmd_create_cq& cmd);
    Result<> resize(const vrdma_cmd_resize_cq& cmd);
    Result<> modify(const vrdma_cmd_modify_cq& cmd);
    Result<> destroy(Cqn id);
    Cq* find(Cqn id) { return table_.find(id); }

    std::size_t size() const { return table_.size(); }
    void save(StateWriter& writer) const;
    Result<> restore(StateReader& reader);

  private:
    bool valid_depth(std::uint32_t depth) const;
    std::uint64_t buffer_size(std::uint32_t depth, const vrdma_page_list& pages) const;
    Result<> check(const Cq& cq) const;
    Result<> add(Cq cq, Buffer buffer);
    Result<> restore_one(StateReader& reader);

    Resources& resources_;
    UcontextTable& ucontexts_;
    EqTable& eqs_;
    DenseIds ids_;
    ObjectTable<Cqn, Cq> table_;
};

} // namespace vrdma::verbs
