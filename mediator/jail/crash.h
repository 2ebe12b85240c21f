// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A crash ends the process by its signal, and leaves nothing behind, because our memory contains
// guests' memory and keys.
#pragma once

#include "mediator/base/result.h"

namespace vrdma::jail {

// Restores the default handlers of signals. Libraries install handlers of their own when they are
// loaded (libpsm2, which libfabric needs, writes a file and exits with status 1). This must run
// before we install any handler. Sanitizers keep their handlers, which report.
void take_crashes_back() noexcept;

// Prevents core dumps, and access to our memory by debuggers and other processes of the same user.
Result<> hide_memory() noexcept;

} // namespace vrdma::jail
