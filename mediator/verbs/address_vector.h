// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The rules for the address vector of an AH or a QP.
#pragma once

#include "mediator/base/result.h"
#include "mediator/hca/address_vector.h"
#include "mediator/verbs/gid.h"
#include "vrdma/device.h"

namespace vrdma::verbs {

using hca::is_well_formed;
using hca::port_number;

// The address vector must be well-formed, and the device must be able to send from its source GID.
Result<> check_av(const vrdma_av& av, const GidTable& gids);

} // namespace vrdma::verbs
