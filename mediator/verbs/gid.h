// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A device's GID table. No guest may use the address of another. So a GID must be one that the
// device may use, and no other device of this mediator may have it.
#pragma once

#include <bitset>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "mediator/base/result.h"
#include "mediator/verbs/identity.h"
#include "mediator/verbs/resources.h"
#include "mediator/verbs/saved_state.h"

namespace vrdma::verbs {

using hca::Gid;

// Records which device has which GID in which VLAN (0: none). All devices of the mediator share one
// registry. It knows a device by its identity.
class GidRegistry {
  public:
    // A device may claim a GID several times, and must give it back as often.
    Result<> claim(const Gid& gid, const Identity* device, std::uint16_t vlan = 0);
    void give_back(const Gid& gid, std::uint16_t vlan = 0);

  private:
    struct Owner {
        const Identity* device;
        unsigned claims;
    };
    std::map<std::pair<Gid, std::uint16_t>, Owner> owners_;
};

// Versions of RoCE, by the type of their GIDs: VRDMA_GID_*.
using Protocols = std::bitset<VRDMA_GID_ROCE_V2 + 1>;

struct GidState {
    static constexpr std::uint32_t version = 2;

    std::uint32_t index;
    std::uint16_t type;
    std::uint16_t vlan;
    Gid gid;
};

class GidTable {
  public:
    GidTable(Resources& resources, const Identity& identity, GidRegistry& registry);
    GidTable(const GidTable&) = delete;
    GidTable& operator=(const GidTable&) = delete;
    ~GidTable();

    Result<> set(const vrdma_cmd_set_gid& cmd);
    // Whether a QP or an AH may send from this GID. EINVAL: it is not set. EPROTONOSUPPORT: the
    // device may not use its type.
    Result<> check(std::uint32_t index) const;
    // Whether it is set, and its type is one of these.
    bool is_of(std::uint32_t index, Protocols protocols) const;

    // GIDs of other types stay in the table, but the slice does not have them. If this fails, all
    // is as it was.
    Result<> allow(Protocols protocols);

    void save(StateWriter& writer) const;
    Result<> restore(StateReader& reader);

  private:
    struct Entry {
        bool valid = false;
        std::uint8_t type = 0;
        std::uint16_t vlan = 0;
        Gid gid{};
    };

    Result<> fill(std::uint32_t index, const Entry& entry);
    Result<> give(std::uint32_t index, const Entry& entry);
    Result<> give_all(Protocols types);
    Result<> clear(std::uint32_t index);
    Result<> restore_one(StateReader& reader);

    Resources& resources_;
    const Identity& identity_;
    GidRegistry& registry_;
    Protocols allowed_ = Protocols{}.set();
    std::vector<Entry> entries_;
};

} // namespace vrdma::verbs
