// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The common part of each helper's program (see launch.h). A supervisor reads no input of others.
// It forks the worker that does, and another one when that dies, because vrdmad cannot start
// programs any more. Both end when the socket ends, and when vrdmad does.
#pragma once

#include "mediator/base/result.h"
#include "mediator/jail/system_calls.h"

namespace vrdma::helper {

struct Duty {
    const char* program; // its name, for people
    // Limits the calls that a worker can make from then on.
    Result<> (*confine)(jail::Forbidden forbidden) noexcept;
    // Works until the socket ends, which is the expected end, or something else happens.
    bool (*work)(int socket);
};

// Returns the exit status for main() of the program.
int run(int argc, char** argv, const Duty& duty);

} // namespace vrdma::helper
