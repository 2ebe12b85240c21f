// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A crash ends the process by its signal, and leaves nothing behind: the memory of guests and keys
// are in ours.
#pragma once

#include "mediator/base/result.h"

namespace vrdma::jail {

// Libraries install handlers of their own when they are loaded (libpsm2, which libfabric needs,
// writes a file and exits with status 1). Before anything of ours is installed. Sanitizers keep
// theirs, which report.
void take_crashes_back() noexcept;

// No core dump, nor a debugger, nor another process of the same user that looks into our memory.
Result<> hide_memory() noexcept;

} // namespace vrdma::jail
