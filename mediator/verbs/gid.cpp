// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/verbs/gid.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string>

namespace vrdma::verbs {
namespace {

constexpr unsigned gid_bits = 128;
constexpr unsigned mapped_bits = 96; // of ::ffff:0:0/96

constexpr Gid loopback{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};

Result<Gid> parse_address(const std::string& text, unsigned& bits) {
    Gid gid{};
    if (::inet_pton(AF_INET6, text.c_str(), gid.data()) == 1) {
        bits = gid_bits;
        return gid;
    }
    if (::inet_pton(AF_INET, text.c_str(), gid.data() + mapped_bits / 8) == 1) {
        gid[10] = gid[11] = 0xff;
        bits = gid_bits - mapped_bits;
        return gid;
    }
    return fail(std::errc::invalid_argument);
}

Result<Prefix> parse_prefix(std::string_view text) {
    const auto slash = text.find('/');
    unsigned bits = 0;
    const auto address = parse_address(std::string{text.substr(0, slash)}, bits);
    if (!address) {
        return fail(address.error());
    }
    unsigned length = bits;
    if (slash != std::string_view::npos) {
        const char* end = text.data() + text.size();
        const auto parsed = std::from_chars(text.data() + slash + 1, end, length);
        if (parsed.ec != std::errc{} || parsed.ptr != end || length > bits) {
            return fail(std::errc::invalid_argument);
        }
    }
    return Prefix{*address, gid_bits - bits + length};
}

bool is_link_local(const Gid& gid) {
    return gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80;
}

} // namespace

Mac derived_mac(std::span<const std::uint8_t> name) {
    constexpr std::uint8_t locally_administered = 0x02;
    std::uint64_t hash = 0xcbf29ce484222325; // FNV-1a
    for (const std::uint8_t byte : name) {
        hash = (hash ^ byte) * 0x100000001b3;
    }
    Mac mac{locally_administered};
    for (std::size_t i = 1; i < mac.size(); ++i) {
        mac[i] = static_cast<std::uint8_t>(hash >> (8 * i));
    }
    return mac;
}

Gid link_local(const Mac& mac) {
    return {
        0xfe,   0x80,   0,    0,    0,      0,      0,     0, static_cast<std::uint8_t>(mac[0] ^ 2),
        mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]};
}

bool Prefix::contains(const Gid& gid) const {
    const unsigned bytes = bits / 8;
    if (!std::equal(gid.begin(), gid.begin() + bytes, address.begin())) {
        return false;
    }
    const unsigned mask = 0xff00u >> (bits % 8) & 0xff;
    return mask == 0 || ((gid[bytes] ^ address[bytes]) & mask) == 0;
}

Result<std::vector<Prefix>> parse_prefixes(std::string_view text) {
    std::vector<Prefix> prefixes;
    while (!text.empty()) {
        const auto comma = text.find(',');
        const auto prefix = parse_prefix(text.substr(0, comma));
        if (!prefix) {
            return fail(prefix.error());
        }
        prefixes.push_back(*prefix);
        text = comma == std::string_view::npos ? std::string_view{} : text.substr(comma + 1);
    }
    return prefixes;
}

Result<> Identity::may_use(const Gid& gid) const {
    if (gid == Gid{} || gid == loopback || gid[0] == 0xff) {
        return fail(std::errc::invalid_argument);
    }
    const bool any = prefixes_valid && prefixes.empty();
    if (any || gid == link_local(mac) ||
        std::ranges::any_of(prefixes, [&](const Prefix& prefix) { return prefix.contains(gid); })) {
        return {};
    }
    return fail(std::errc::permission_denied);
}

Result<> GidRegistry::claim(const Gid& gid, const Identity* device, std::uint16_t vlan) {
    const auto untagged = owners_.find({gid, 0});
    if (is_link_local(gid) && untagged != owners_.end() && untagged->second.device != device) {
        return fail(std::errc::address_in_use); // it follows from a MAC, which VLANs do not change
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

bool GidTable::is_set(std::uint32_t index) const {
    return index < entries_.size() && entries_[index].valid;
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
    const auto& [valid, type, vlan, gid] = entry;
    if (const auto allowed = identity_.may_use(gid); !allowed) {
        return allowed;
    }
    if (const auto claimed = registry_.claim(gid, &identity_, vlan); !claimed) {
        return claimed;
    }
    if (const auto set = resources_.slice.set_gid(index, type, gid, vlan); !set) {
        registry_.give_back(gid, vlan);
        return set;
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
