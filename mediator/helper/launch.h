// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Starts a process that reads for us what strangers write. It is another program, so that nothing
// of our memory is in it, and it has one descriptor of ours: its end of a socket. It ends with
// that.
#pragma once

#include <sys/types.h>

#include <string>

#include "mediator/base/result.h"
#include "mediator/base/unique_fd.h"

namespace vrdma::helper {

inline constexpr int socket_of_process = 3;

struct Launched {
    pid_t process;
    UniqueFd socket;
};

// A program of that name is where ours is. Who could not execute it later starts it before.
std::string program_path(const std::string& name);

// `forbidden` is what --forbidden-calls says. The thread that calls lives as long as the process.
Result<Launched> launch(const std::string& program, const std::string& forbidden);

} // namespace vrdma::helper
