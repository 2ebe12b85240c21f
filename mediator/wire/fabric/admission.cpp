// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/wire/fabric/admission.h"

#include <netinet/in.h>

#include <algorithm>
#include <cstring>

#include "mediator/base/gid.h"

namespace vrdma::wire::fabric {
namespace {

constexpr std::size_t network_size = 8; // bytes of an IPv6 network

Source source_of_v4(const sockaddr_in& address) noexcept {
    Source source{};
    std::ranges::copy(ipv4_prefix, source.begin());
    std::memcpy(source.data() + ipv4_prefix.size(), &address.sin_addr, sizeof(address.sin_addr));
    return source;
}

// A socket that listens for both families has IPv4 addresses as well.
Source source_of_v6(const sockaddr_in6& address) noexcept {
    Source source{};
    std::memcpy(source.data(), &address.sin6_addr, source.size());
    if (!IN6_IS_ADDR_V4MAPPED(&address.sin6_addr)) {
        std::fill(source.begin() + network_size, source.end(), 0);
    }
    return source;
}

} // namespace

Source source_of(const void* address, std::size_t size) noexcept {
    sockaddr_storage copy{};
    if (address != nullptr) {
        std::memcpy(&copy, address, std::min(size, sizeof(copy)));
    }
    switch (copy.ss_family) {
        case AF_INET:
            return source_of_v4(reinterpret_cast<const sockaddr_in&>(copy));
        case AF_INET6:
            return source_of_v6(reinterpret_cast<const sockaddr_in6&>(copy));
        default:
            return {};
    }
}

std::optional<std::size_t> goes_for(const Source& comes, std::span<const Source> there) noexcept {
    const auto count_of = [&](const Source& source) { return std::ranges::count(there, source); };
    const auto oldest_of = [&](const Source& source) {
        return static_cast<std::size_t>(std::ranges::find(there, source) - there.begin());
    };
    if (count_of(comes) >= static_cast<std::ptrdiff_t>(max_strangers_of_source)) {
        return oldest_of(comes);
    }
    if (there.size() < max_strangers) {
        return std::nullopt;
    }
    return oldest_of(*std::ranges::max_element(there, {}, count_of)); // the first of several
}

} // namespace vrdma::wire::fabric
