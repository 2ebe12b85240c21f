// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A host's entry in the directory: where the host is, and the addresses of its devices. Each
// address has the revision of etcd since which the host claims it; 0 stands for the revision that
// brought the entry. If two hosts claim an address, the later claim wins, however often they write
// their entries.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "mediator/base/gid.h"
#include "mediator/wire/fabric/address.h"

namespace vrdma::directory {

using Claims = std::map<Gid, std::int64_t>;

struct Entry {
    static constexpr std::size_t max_size = 128 << 10; // bytes, as text
    static constexpr std::size_t max_gids = 2048;
    static constexpr std::size_t max_host = 63; // characters of an address
    static constexpr std::size_t max_service = 15;
    // The next revision is that of claims in the configuration.
    static constexpr std::int64_t last_revision = INT64_MAX - 1;

    wire::fabric::Address address;
    Claims claims;

    bool operator==(const Entry&) const = default;
};

// Hosts by name. An entry that has not changed is the same object.
using Hosts = std::map<std::string, std::shared_ptr<const Entry>>;
inline constexpr std::size_t max_hosts = 1024;
inline constexpr std::size_t max_gids_of_all = 1 << 18;

// Whether a device can have the GID.
bool valid_gid(const Gid& gid);
std::string text_of(const wire::fabric::Address& address);

} // namespace vrdma::directory
