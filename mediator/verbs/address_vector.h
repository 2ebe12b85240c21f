// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The rules for an address vector, in an AH as in a QP.
#pragma once

#include "mediator/base/result.h"
#include "mediator/verbs/gid.h"
#include "vrdma/device.h"

namespace vrdma::verbs {

constexpr std::uint8_t port_number = 1;

// All that can be said of it without the GID table.
bool is_well_formed(const vrdma_av& av);

// Well-formed, and its source GID is set.
Result<> check_av(const vrdma_av& av, const GidTable& gids);

} // namespace vrdma::verbs
