// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A socket that listens at an address of this host.
#pragma once

#include "mediator/base/result.h"
#include "mediator/base/unique_fd.h"
#include "mediator/wire/fabric/address.h"

namespace vrdma::control {

Result<UniqueFd> listen_at(const wire::fabric::Address& address);

} // namespace vrdma::control
