// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// What a process is that reads for vrdmad, be it another program (see supervisor.h) or one that
// vrdmad forked.
#pragma once

#include <sys/types.h>

#include <cstddef>

namespace vrdma::helper {

// Before it reads anything. It leaves signals to vrdmad, ends when its parent does, and gives up
// what no helper needs; what it allocates is so many bytes at most.
bool become_helper(std::size_t memory);

// Waits for its end; returns what waitpid(2) says of it. -1: there is none, as where a fork failed.
int wait_for(pid_t child);

} // namespace vrdma::helper
