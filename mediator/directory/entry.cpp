// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/directory/entry.h"

namespace vrdma::directory {

bool valid_gid(const Gid& gid) {
    return gid != Gid{} && !is_multicast(gid);
}

std::string text_of(const wire::fabric::Address& address) {
    const bool v6 = address.host.find(':') != std::string::npos;
    return (v6 ? "[" + address.host + "]" : address.host) + ":" + address.service;
}

} // namespace vrdma::directory
