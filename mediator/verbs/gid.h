// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A device's GID table. No guest may speak as another: a GID must be one that the device may use,
// and no other device of this mediator may have it.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mediator/base/result.h"
#include "mediator/verbs/resources.h"
#include "mediator/verbs/saved_state.h"

namespace vrdma::verbs {

using hca::Gid;
using Mac = std::array<std::uint8_t, 6>;

// Locally administered, and the same each time that a device of this name is made.
Mac derived_mac(std::span<const std::uint8_t> name);

Gid link_local(const Mac& mac); // fe80::/64 with the modified EUI-64

// Addresses that a device may use, IPv4 as IPv4-mapped IPv6.
struct Prefix {
    Gid address{};
    unsigned bits = 0;

    bool contains(const Gid& gid) const;
};

// "10.0.0.5/32,fd00::/64"; without "/n", one address.
Result<std::vector<Prefix>> parse_prefixes(std::string_view text);

// Who a device is on the network. Without prefixes, any address goes.
struct Identity {
    Mac mac{};
    std::vector<Prefix> prefixes;
    bool prefixes_valid = true; // else only the link-local address goes
    std::string uplink{};       // by which it has peers elsewhere, or none

    Result<> may_use(const Gid& gid) const;
};

// Which device has which GID in which VLAN, or in none (0); one for all devices of the mediator. A
// device is known by its identity.
class GidRegistry {
  public:
    // A device may claim a GID many times and gives it back as often.
    Result<> claim(const Gid& gid, const Identity* device, std::uint16_t vlan = 0);
    void give_back(const Gid& gid, std::uint16_t vlan = 0);

  private:
    struct Owner {
        const Identity* device;
        unsigned claims;
    };
    std::map<std::pair<Gid, std::uint16_t>, Owner> owners_;
};

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
    bool is_set(std::uint32_t index) const;

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
    Result<> clear(std::uint32_t index);
    Result<> restore_one(StateReader& reader);

    Resources& resources_;
    const Identity& identity_;
    GidRegistry& registry_;
    std::vector<Entry> entries_;
};

} // namespace vrdma::verbs
