// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Shared receive queues.
#pragma once

#include "mediator/verbs/cq.h"
#include "mediator/verbs/pd.h"
#include "mediator/verbs/resources.h"
#include "mediator/verbs/ucontext.h"
#include "mediator/verbs/xrcd.h"

namespace vrdma::verbs {

struct SrqState {
    static constexpr std::uint32_t version = 2;

    std::uint32_t id;
    std::uint32_t ucontext;
    std::uint32_t pd;
    std::uint32_t xrcd;
    std::uint32_t cq;
    std::uint32_t depth;
    std::uint16_t max_sge;
    std::uint16_t stride_shift;
    hca::SrqState slice;
};

struct Srq {
    UcontextId ucontext;
    hca::SrqSpec spec;
    MemoryBudget::Lease lease;
    UseCount::Hold owner;
    UseCount::Hold pd;
    UseCount::Hold xrcd;
    UseCount::Hold cq;
    UseCount users;
};

class SrqTable {
  public:
    SrqTable(Resources& resources, UcontextTable& ucontexts, PdTable& pds, CqTable& cqs,
             XrcdTable& xrcds);

    Result<Srqn> create(const vrdma_cmd_create_srq& cmd);
    Result<> modify(const vrdma_cmd_modify_srq& cmd);
    Result<> resize(const vrdma_cmd_resize_srq& cmd);
    // Returns the limit.
    Result<std::uint32_t> query(Srqn id) const;
    Result<> destroy(Srqn id);
    Srq* find(Srqn id) { return table_.find(id); }

    std::size_t size() const { return table_.size(); }
    void save(StateWriter& writer) const;
    Result<> restore(StateReader& reader);

  private:
    Result<> check(const Srq& srq) const;
    bool valid_xrc(const Srq& srq) const;
    Result<> add(Srq srq, Buffer buffer);
    Result<> restore_one(StateReader& reader);

    Resources& resources_;
    UcontextTable& ucontexts_;
    PdTable& pds_;
    CqTable& cqs_;
    XrcdTable& xrcds_;
    DenseIds ids_;
    ObjectTable<Srqn, Srq> table_;
};

} // namespace vrdma::verbs
