// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// What the directory says of a host: {"address": "10.0.0.1:7471", "gids": {"10.0.0.5": 17}} at the
// key PREFIXhosts/NAME. With each address of its devices stands the revision of etcd since which
// the host claims it, 0 for that which brought the entry: of two hosts that claim an address the
// later has it, however often they write their entries. What others wrote may be anything.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "mediator/base/gid.h"
#include "mediator/wire/fabric/provider.h"

namespace vrdma::directory {

using Claims = std::map<Gid, std::int64_t>;

struct Entry {
    static constexpr std::size_t max_size = 128 << 10; // bytes
    static constexpr std::size_t max_gids = 2048;

    wire::fabric::Address address;
    Claims claims;

    bool operator==(const Entry&) const = default;
};

std::string text_of(const Gid& gid);

std::string format_entry(const Entry& entry);
// As it is at that revision. The error is for people.
tl::expected<Entry, std::string> parse_entry(std::string_view text, std::int64_t revision);

std::string key_prefix(const std::string& prefix);
// None if that is no host's key.
std::optional<std::string> host_of(std::string_view key, const std::string& prefix);

} // namespace vrdma::directory
