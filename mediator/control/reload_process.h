// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Reads the configuration again, in a process that vrdmad forks before it has any guest's memory.
// A text that exploits the parser finds nothing there.
#pragma once

#include <chrono>

#include "mediator/base/result.h"
#include "mediator/base/unique_fd.h"
#include "mediator/control/reload.h"
#include "mediator/jail/system_calls.h"

namespace vrdma::control {

struct ReloadProcessOptions {
    jail::Forbidden forbidden = jail::Forbidden::refused;
    std::chrono::seconds limit{10}; // for reading the file
};

// Returns the socket to the process. Each byte that is sent there as a message asks how the file
// differs from `running`; reload_message.h has the answer. The process ends when the socket is
// closed, and when vrdmad ends. Call it before there are other threads, and before vrdmad hides its
// memory.
Result<UniqueFd> start_reload_process(const Running& running, const ReloadProcessOptions& options);

} // namespace vrdma::control
