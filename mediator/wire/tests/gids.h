// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// GIDs from the text of addresses.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "mediator/base/gid.h"

namespace vrdma::wire {

inline Gid gid(const std::string& address) {
    Gid gid{};
    std::copy(ipv4_prefix.begin(), ipv4_prefix.end(), gid.begin());
    if (::inet_pton(AF_INET, address.c_str(), gid.data() + ipv4_prefix.size()) != 1) {
        EXPECT_EQ(::inet_pton(AF_INET6, address.c_str(), gid.data()), 1) << address;
    }
    return gid;
}

} // namespace vrdma::wire
