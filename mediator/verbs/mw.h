// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Memory windows. The HCA alone knows to what they are bound.
#pragma once

#include "mediator/verbs/key_space.h"
#include "mediator/verbs/pd.h"
#include "mediator/verbs/resources.h"

namespace vrdma::verbs {

struct MwState {
    static constexpr std::uint32_t version = 1;

    std::uint32_t key; // as it was given out
    std::uint32_t pd;
    std::uint32_t type;
    std::uint32_t reserved;
    hca::MwState slice;
};

struct Mw {
    hca::MwSpec spec;
    UseCount::Hold pd;
};

class MwTable {
  public:
    MwTable(Resources& resources, PdTable& pds, KeySpace& keys);

    Result<Key> alloc(const vrdma_cmd_alloc_mw& cmd);
    Result<> dealloc(Key key);

    void save(StateWriter& writer) const;
    // Call it after the queue pairs are restored, because they own the windows that they have
    // bound.
    Result<> restore(StateReader& reader);

  private:
    Result<> check(const hca::MwSpec& spec) const;
    Result<> add(const hca::MwSpec& spec);
    Result<> restore_one(StateReader& reader);

    Resources& resources_;
    PdTable& pds_;
    KeySpace& keys_;
    ObjectTable<Key, Mw> table_;
};

} // namespace vrdma::verbs
