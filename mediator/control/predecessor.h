// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The vrdmad before, which has died, and whose engine process may still hand its devices over
// (engine_process.h). Until that has ended, its sockets and uplinks are in use. Both processes hold
// a lock of the configuration file, which names the process that took it.
#pragma once

#include <chrono>
#include <string>

#include "mediator/base/result.h"
#include "mediator/base/unique_fd.h"

namespace vrdma::control {

// Waits until the predecessor has ended, and takes the lock: as long as the result is open, and the
// process closes no other descriptor of that file, a successor waits for this process. Waits for a
// dead process only: one that is alive has the sockets by mistake. The result is not open if there
// is no such file.
UniqueFd await_predecessor(const std::string& file, std::chrono::milliseconds limit);

} // namespace vrdma::control
