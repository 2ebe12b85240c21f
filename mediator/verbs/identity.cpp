// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/verbs/identity.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>

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

// No port has the address ::1, but programs on this host may know of no other. So a device that is
// on no network may use it if its administrator has named exactly this address.
bool names_loopback(const Identity& identity) {
    return identity.uplink.empty() &&
           std::ranges::any_of(identity.prefixes, [](const Prefix& prefix) {
               return prefix.address == loopback && prefix.bits == gid_bits;
           });
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

bool Identity::may_have_any_address() const {
    return uplink.empty() && prefixes_valid && prefixes.empty();
}

Result<> Identity::may_use(const Gid& gid, std::uint16_t vlan) const {
    if (gid == Gid{} || (gid == loopback && !names_loopback(*this)) || gid[0] == 0xff) {
        return fail(std::errc::invalid_argument);
    }
    if (vlan != 0 && !uplink.empty() && (vlan >= vlans.size() || !vlans[vlan])) {
        return fail(std::errc::permission_denied);
    }
    if (may_have_any_address() || gid == link_local(mac) ||
        std::ranges::any_of(prefixes, [&](const Prefix& prefix) { return prefix.contains(gid); })) {
        return {};
    }
    return fail(std::errc::permission_denied);
}

} // namespace vrdma::verbs
