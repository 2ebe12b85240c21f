// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Where files can be written (landlock(7)). Nothing can be executed.
#pragma once

#include <string>
#include <vector>

#include "mediator/base/result.h"

namespace vrdma::jail {

struct Writable {
    std::vector<std::string> directories; // files and sockets can be made and removed there
    std::vector<std::string> devices;
};

// By this thread, and those that it starts, from now on. What is not there is not writable. Whether
// the kernel has the means; where it has not, nothing changes.
Result<bool> write_only_to(const Writable& writable) noexcept;

} // namespace vrdma::jail
