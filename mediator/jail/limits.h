// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// What a process that reads for vrdmad takes of the machine (setrlimit(2)). It inherits vrdmad's
// limits, which are those of pollers.
#pragma once

#include <cstddef>

#include "mediator/base/result.h"

namespace vrdma::jail {

// From now on, for this process and those that it starts: no real-time priority, no locked memory,
// so many bytes of memory that is its own, and it is the first to be killed where the machine has
// none left. While files can still be written, and before hide_memory(), which makes the files of
// the process in /proc root's.
Result<> take_little(std::size_t memory) noexcept;

} // namespace vrdma::jail
