// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/verbs/gid.h"

#include <algorithm>
#include <utility>

namespace vrdma::verbs {
namespace {

bool is_link_local(const Gid& gid) {
    return gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80;
}

} // namespace

Result<> GidRegistry::claim(const Gid& gid, const Identity* device, std::uint16_t vlan) {
    const auto untagged = owners_.find({gid, 0});
    if (is_link_local(gid) && untagged != owners_.end() && untagged->second.device != device) {
        return fail(std::errc::address_in_use); // the MAC is the same in all VLANs
    }
    const auto [at, added] = owners_.try_emplace({gid, vlan}, Owner{device, 0});
    if (at->second.device != device) {
        return fail(std::errc::address_in_use);
    }
    ++at->second.claims;
    return {};
}

void GidRegistry::give_back(const Gid& gid, std::uint16_t vlan) {
    const auto found = owners_.find({gid, vlan});
    if (found != owners_.end() && --found->second.claims == 0) {
        owners_.erase(found);
    }
}

GidTable::GidTable(Resources& resources, const Identity& identity, GidRegistry& registry)
    : resources_{resources},
      identity_{identity},
      registry_{registry},
      entries_(resources.limits.gid_table_len) {}

GidTable::~GidTable() {
    for (const Entry& entry : entries_) {
        if (entry.valid) {
            registry_.give_back(entry.gid, entry.vlan);
        }
    }
}

Result<> GidTable::check(std::uint32_t index) const {
    if (!is_of(index, Protocols{}.set())) {
        return fail(std::errc::invalid_argument);
    }
    return is_of(index, allowed_) ? Result<>{} : fail(std::errc::protocol_not_supported);
}

bool GidTable::is_of(std::uint32_t index, Protocols protocols) const {
    return index < entries_.size() && entries_[index].valid && protocols[entries_[index].type];
}

// The slice has the GIDs of allowed types only.
Result<> GidTable::give(std::uint32_t index, const Entry& entry) {
    const bool has = allowed_[entry.type];
    return resources_.slice.set_gid(index, entry.type, has ? entry.gid : Gid{},
                                    has ? entry.vlan : std::uint16_t{0});
}

Result<> GidTable::give_all(Protocols types) {
    for (std::uint32_t i = 0; i < entries_.size(); ++i) {
        const auto given = is_of(i, types) ? give(i, entries_[i]) : Result<>{};
        if (!given) {
            return given;
        }
    }
    return {};
}

// Only the first half can fail. GIDs of types that were allowed before stay in the slice.
Result<> GidTable::allow(Protocols protocols) {
    const Protocols before = std::exchange(allowed_, allowed_ | protocols);
    if (const auto given = give_all(protocols & ~before); !given) {
        allowed_ = before;
        (void)give_all(protocols & ~before);
        return given;
    }
    allowed_ = protocols;
    return give_all(before & ~protocols);
}

Result<> GidTable::set(const vrdma_cmd_set_gid& cmd) {
    if (cmd.vlan > VRDMA_MAX_VLAN || cmd.valid > 1 || cmd.type > VRDMA_GID_ROCE_V2 ||
        cmd.index >= entries_.size()) {
        return fail(std::errc::invalid_argument);
    }
    if (cmd.valid == 0) {
        return clear(cmd.index);
    }
    Entry entry{true, cmd.type, cmd.vlan, {}};
    std::ranges::copy(cmd.gid, entry.gid.begin());
    return fill(cmd.index, entry);
}

// A refused GID leaves the entry as it was.
Result<> GidTable::fill(std::uint32_t index, const Entry& entry) {
    if (const auto allowed = identity_.may_use(entry.gid, entry.vlan); !allowed) {
        return allowed;
    }
    if (const auto claimed = registry_.claim(entry.gid, &identity_, entry.vlan); !claimed) {
        return claimed;
    }
    if (const auto given = give(index, entry); !given) {
        registry_.give_back(entry.gid, entry.vlan);
        return given;
    }
    if (entries_[index].valid) {
        registry_.give_back(entries_[index].gid, entries_[index].vlan);
    }
    entries_[index] = entry;
    return {};
}

Result<> GidTable::clear(std::uint32_t index) {
    Entry& entry = entries_[index];
    if (!entry.valid) {
        return {};
    }
    if (const auto cleared = resources_.slice.set_gid(index, entry.type, Gid{}, 0); !cleared) {
        return cleared;
    }
    registry_.give_back(entry.gid, entry.vlan);
    entry = {};
    return {};
}

void GidTable::save(StateWriter& writer) const {
    const auto valid = std::ranges::count(entries_, true, &Entry::valid);
    writer.begin(Section::gids, GidState::version, static_cast<std::size_t>(valid));
    for (std::uint32_t i = 0; i < entries_.size(); ++i) {
        if (entries_[i].valid) {
            writer.put(GidState{i, entries_[i].type, entries_[i].vlan, entries_[i].gid});
        }
    }
}

Result<> GidTable::restore_one(StateReader& reader) {
    const auto state = reader.take<GidState>();
    if (!state || state->index >= entries_.size() || entries_[state->index].valid ||
        state->type > VRDMA_GID_ROCE_V2 || state->vlan > VRDMA_MAX_VLAN) {
        return fail(std::errc::invalid_argument);
    }
    return fill(state->index,
                {true, static_cast<std::uint8_t>(state->type), state->vlan, state->gid});
}

Result<> GidTable::restore(StateReader& reader) {
    return restore_records(reader, Section::gids, GidState::version,
                           [this](StateReader& from) { return restore_one(from); });
}

} // namespace vrdma::verbs
