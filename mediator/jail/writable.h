// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Limits where files can be written (landlock(7)). No file can be executed.
#pragma once

#include <string>
#include <vector>

#include "mediator/base/result.h"

namespace vrdma::jail {

struct Writable {
    std::vector<std::string> directories; // files and sockets can be made and removed there
    std::vector<std::string> devices;
};

// Limits this thread, and the threads that it starts, from now on. A path that does not exist is
// not writable. Returns whether the kernel has Landlock. If it does not, nothing changes.
Result<bool> write_only_to(const Writable& writable) noexcept;

} // namespace vrdma::jail
