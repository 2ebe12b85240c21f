// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The addresses that this host's own stack answers for.
#pragma once

#include "mediator/wire/packet.h"

namespace vrdma::wire {

// An interface of the host has it. Where nobody can tell, none has.
bool is_hosts_own(const Gid& gid);

} // namespace vrdma::wire
