// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/wire/uplink/host_addresses.h"

#include <ifaddrs.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>

namespace vrdma::wire {
namespace {

std::optional<Gid> gid_in(const sockaddr* address) {
    Gid gid{};
    if (address != nullptr && address->sa_family == AF_INET) {
        sockaddr_in ipv4;
        std::memcpy(&ipv4, address, sizeof(ipv4));
        std::ranges::copy(ipv4_prefix, gid.begin());
        std::memcpy(gid.data() + ipv4_prefix.size(), &ipv4.sin_addr, sizeof(ipv4.sin_addr));
        return gid;
    }
    if (address != nullptr && address->sa_family == AF_INET6) {
        sockaddr_in6 ipv6;
        std::memcpy(&ipv6, address, sizeof(ipv6));
        std::memcpy(gid.data(), &ipv6.sin6_addr, gid.size());
        return gid;
    }
    return std::nullopt;
}

} // namespace

bool is_hosts_own(const Gid& gid) {
    ifaddrs* first = nullptr;
    if (::getifaddrs(&first) != 0) {
        return false;
    }
    const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> all{first, ::freeifaddrs};
    const ifaddrs* at = first;
    while (at != nullptr && gid_in(at->ifa_addr) != gid) {
        at = at->ifa_next;
    }
    return at != nullptr;
}

} // namespace vrdma::wire
