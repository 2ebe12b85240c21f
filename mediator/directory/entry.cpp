// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/directory/entry.h"

#include <arpa/inet.h>

#include <array>

namespace vrdma::directory {

bool valid_gid(const Gid& gid) {
    return gid != Gid{} && !is_multicast(gid);
}

std::string text_of(const Gid& gid) {
    std::array<char, INET6_ADDRSTRLEN> text{};
    if (is_ipv4(gid)) {
        ::inet_ntop(AF_INET, gid.data() + ipv4_prefix.size(), text.data(), text.size());
    } else {
        ::inet_ntop(AF_INET6, gid.data(), text.data(), text.size());
    }
    return text.data();
}

std::string text_of(const wire::fabric::Address& address) {
    const bool v6 = address.host.find(':') != std::string::npos;
    return (v6 ? "[" + address.host + "]" : address.host) + ":" + address.service;
}

} // namespace vrdma::directory
