// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Starts a process that reads strangers' input for us. It is another program, so that it has
// nothing of our memory. It has one descriptor of ours, its end of a socket, and ends when the
// socket ends.
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

// The path of the helper program `name`, which is in the directory of ours. A process that will not
// be able to execute programs later must start it before.
std::string program_path(const std::string& name);

// `forbidden` is the value of --forbidden-calls. The calling thread must live as long as the
// process.
Result<Launched> launch(const std::string& program, const std::string& forbidden);

} // namespace vrdma::helper
