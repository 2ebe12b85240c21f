// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The handlers of faults in guest memory, which the process has when it has a FaultGuard.
#pragma once

namespace vrdma {

// A thread that dies of a fault takes the handlers from all processes that share them with it
// (CLONE_SIGHAND). One that lives on installs them again.
void handle_faults_again() noexcept;

} // namespace vrdma
