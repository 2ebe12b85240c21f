// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Multicast groups: which UD queue pairs of this device get the datagrams sent to a multicast GID.
#pragma once

#include <map>

#include "mediator/verbs/qp.h"

namespace vrdma::verbs {

struct MulticastState {
    static constexpr std::uint32_t version = 1;

    std::uint32_t qpn;
    std::uint8_t gid[16];
};

class MulticastTable {
  public:
    MulticastTable(Resources& resources, QpTable& qps);

    // Attaching a QP twice has no further effect.
    Result<> attach(const vrdma_cmd_multicast& cmd);
    Result<> detach(const vrdma_cmd_multicast& cmd);

    void save(StateWriter& writer) const;
    Result<> restore(StateReader& reader);

  private:
    struct Member {
        UseCount::Hold qp;
        MemoryBudget::Lease lease;
    };
    using Group = std::map<Qpn, Member>;

    Result<> add(Qpn qpn, const Gid& gid);
    void forget(Qpn qpn, const Gid& gid);
    Result<> restore_one(StateReader& reader);

    Resources& resources_;
    QpTable& qps_;
    const std::uint64_t cost_;    // per member, as if it were the only one of its group
    std::map<Gid, Group> groups_; // none is empty
    std::size_t attached_ = 0;    // in all groups
};

} // namespace vrdma::verbs
