// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Reads the configuration again, in a process that vrdmad forks before it has anybody's memory. A
// text may lead its parser astray; there it finds nothing.
#pragma once

#include <chrono>

#include "mediator/base/result.h"
#include "mediator/base/unique_fd.h"
#include "mediator/control/reload.h"
#include "mediator/jail/system_calls.h"

namespace vrdma::control {

struct ReloadProcessOptions {
    jail::Forbidden forbidden = jail::Forbidden::refused;
    std::chrono::seconds limit{10}; // to read the file in
};

// Returns the socket to it. Each message that it gets, of any byte, asks for what has changed of
// that configuration; reload_message.h has the answer. It ends with the socket, and with vrdmad.
// Before there are other threads, and before vrdmad hides its memory.
Result<UniqueFd> start_reload_process(const Running& running, const ReloadProcessOptions& options);

} // namespace vrdma::control
