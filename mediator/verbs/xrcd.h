// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// XRC domains (IBA A14). Requests to an XRC_RECV QP may name the SRQs of its domain. User contexts
// may share a domain, so it belongs to none of them.
#pragma once

#include "mediator/verbs/object_table.h"
#include "mediator/verbs/resources.h"
#include "mediator/verbs/saved_state.h"
#include "mediator/verbs/use_count.h"

namespace vrdma::verbs {

struct XrcdState {
    static constexpr std::uint32_t version = 1;

    std::uint32_t id;
};

struct Xrcd {
    UseCount users;
};

class XrcdTable {
  public:
    explicit XrcdTable(Resources& resources);

    Result<XrcdId> alloc();
    Result<> dealloc(XrcdId id);
    Xrcd* find(XrcdId id) { return table_.find(id); }
    std::size_t size() const { return table_.size(); }

    void save(StateWriter& writer) const;
    Result<> restore(StateReader& reader);

  private:
    Result<> restore_one(StateReader& reader);

    DenseIds ids_;
    ObjectTable<XrcdId, Xrcd> table_;
};

} // namespace vrdma::verbs
