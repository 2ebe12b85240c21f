// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Saves and restores a connection. Its peer on the network continues with the PSNs that it knows.
#pragma once

#include "mediator/hca/soft/roce/connection.h"

namespace vrdma::hca::soft::roce {

// The connection must be paused.
SavedConnection save(const Connection& connection);
// Called after the queue pair's own state was restored. EINVAL for a state that save() never
// returns, and if the connection's packets do not fit this uplink.
Result<> restore(Connection& connection, const SavedConnection& saved) noexcept;

} // namespace vrdma::hca::soft::roce
