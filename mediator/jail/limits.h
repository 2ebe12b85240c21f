// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Limits what a process that reads for vrdmad takes of the machine (setrlimit(2)). It inherits
// vrdmad's limits, which are those of pollers.
#pragma once

#include <cstddef>

#include "mediator/base/result.h"

namespace vrdma::jail {

// From now on, this process and those that it starts have no real-time priority, no locked memory,
// and at most `memory` bytes of memory of their own. They are the first to be killed if the machine
// runs out of memory. Must be called while files can still be written, and before hide_memory(),
// which makes root the owner of the files of the process in /proc.
Result<> take_little(std::size_t memory) noexcept;

} // namespace vrdma::jail
