// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#pragma once

#include <arpa/inet.h>

#include <array>
#include <string>

#include "mediator/base/gid.h"

namespace vrdma {

// Returns the GID as the IP address that it is.
inline std::string gid_text(const Gid& gid) {
    std::array<char, INET6_ADDRSTRLEN> text{};
    if (is_ipv4(gid)) {
        ::inet_ntop(AF_INET, gid.data() + ipv4_prefix.size(), text.data(), text.size());
    } else {
        ::inet_ntop(AF_INET6, gid.data(), text.data(), text.size());
    }
    return text.data();
}

} // namespace vrdma
