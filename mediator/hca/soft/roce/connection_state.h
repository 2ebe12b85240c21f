// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A connection as it is saved and restored: its peer on the network goes on with the PSNs that it
// knows.
#pragma once

#include "mediator/hca/soft/roce/connection.h"

namespace vrdma::hca::soft::roce {

// Of a paused connection.
SavedConnection save(const Connection& connection);
// After the queue pair's own state. What no save() returns is EINVAL, as is a message under way to
// a peer whose packets do not fit this uplink.
Result<> restore(Connection& connection, const SavedConnection& saved) noexcept;

} // namespace vrdma::hca::soft::roce
