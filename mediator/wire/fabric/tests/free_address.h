// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// An address of the loopback interface that a test's servers can have.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "mediator/base/unique_fd.h"
#include "mediator/wire/fabric/address.h"

namespace vrdma::wire::fabric {

// Returns an address at which nobody listens.
inline Address free_address() {
    const UniqueFd socket{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), size), 0);
    EXPECT_EQ(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    return {"127.0.0.1", std::to_string(ntohs(address.sin_port))};
}

} // namespace vrdma::wire::fabric
