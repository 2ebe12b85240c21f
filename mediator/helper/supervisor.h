// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// What is in each helper's program (see launch.h). A supervisor, which reads nothing that others
// write, forks the worker that does, and another one when that dies: vrdmad cannot start programs
// any more. Both end when the socket ends, and when vrdmad does.
#pragma once

#include "mediator/base/result.h"
#include "mediator/jail/system_calls.h"

namespace vrdma::helper {

struct Duty {
    const char* program; // its name, for people
    // The calls that a worker can make from then on.
    Result<> (*confine)(jail::Forbidden forbidden) noexcept;
    // Until the socket ends, which is what is expected to happen, or something else does.
    bool (*work)(int socket);
};

// What main() of the program returns.
int run(int argc, char** argv, const Duty& duty);

} // namespace vrdma::helper
