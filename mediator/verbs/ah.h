// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Address handles: where datagrams go.
#pragma once

#include "mediator/verbs/address_vector.h"
#include "mediator/verbs/pd.h"
#include "mediator/verbs/resources.h"

namespace vrdma::verbs {

struct AhState {
    static constexpr std::uint32_t version = 1;

    std::uint32_t id;
    std::uint32_t pd;
    vrdma_av av;
};

struct Ah {
    PdId pd;
    vrdma_av av{};
    UseCount::Hold pd_hold;
};

class AhTable {
  public:
    AhTable(Resources& resources, PdTable& pds, const GidTable& gids);

    Result<AhId> create(const vrdma_cmd_create_ah& cmd);
    Result<> destroy(AhId id);

    std::size_t size() const { return table_.size(); }
    std::size_t users_of(Protocols protocols) const;
    void save(StateWriter& writer) const;
    Result<> restore(StateReader& reader);

  private:
    Result<> add(AhId id, PdId pd, const vrdma_av& av);
    Result<> restore_one(StateReader& reader);

    Resources& resources_;
    PdTable& pds_;
    const GidTable& gids_;
    DenseIds ids_;
    ObjectTable<AhId, Ah> table_;
};

} // namespace vrdma::verbs
