// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The addresses that this host's own stack answers for.
#pragma once

#include "mediator/wire/packet.h"

namespace vrdma::wire {

// Whether an interface of the host has the address. False if that cannot be found out.
bool is_hosts_own(const Gid& gid);

} // namespace vrdma::wire
