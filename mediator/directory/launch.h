// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Starts the process that talks to etcd (vrdma-directory). It is another program, so that nothing
// of our memory is in it, and it has one descriptor of ours: its end of a socket. It ends with
// that.
#pragma once

#include <sys/types.h>

#include <string>

#include "mediator/base/result.h"
#include "mediator/base/unique_fd.h"

namespace vrdma::directory {

inline constexpr int socket_of_process = 3;

struct Launched {
    pid_t process;
    UniqueFd socket;
};

// The program is where ours is. Who could not execute it later starts it before.
std::string program_path();

// `forbidden` is what --forbidden-calls says. The thread that calls lives as long as the process.
Result<Launched> launch(const std::string& program, const std::string& forbidden);

} // namespace vrdma::directory
