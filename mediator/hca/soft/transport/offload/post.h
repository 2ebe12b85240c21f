// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Posts a guest's WQEs to the host's HCA. The memory gate has allowed each piece of memory, and the
// HCA checks it once more by its own key.
#pragma once

#include "mediator/hca/soft/transport/offload/connection.h"

namespace vrdma::hca::soft::offload {

// Send WQEs, as far as the connection may have some at the HCA.
Turn post_sends(Connection& connection) noexcept;

// Receive WQEs that the guest has posted, the same.
void take_receives(Connection& connection) noexcept;

} // namespace vrdma::hca::soft::offload
