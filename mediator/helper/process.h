// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Confines a process that reads for vrdmad. It is another program (see supervisor.h) or a fork of
// vrdmad.
#pragma once

#include <sys/types.h>

#include <cstddef>

namespace vrdma::helper {

// Must be called before the process reads anything. The process then leaves signals to vrdmad, ends
// when its parent does, has given up what no helper needs, and can allocate `memory` bytes at most.
bool become_helper(std::size_t memory);

// Waits for the end of the child, and returns its status of waitpid(2). -1: there is no child, as
// after a failed fork.
int wait_for(pid_t child);

} // namespace vrdma::helper
