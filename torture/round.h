// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A round has a process on each side. Their threads converse in pairs. The process begins by
// opening the device. It ends by closing it, or one of the two is killed.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "torture/control_connection.h"

namespace vrdma::torture {

// The parameters that the sides agree on.
struct Round {
    std::uint64_t seed = 0;
    std::uint32_t number = 0;
    std::uint32_t conversations = 0;
    std::uint32_t steps = 0;
    std::uint32_t lossy = 0;     // packets may be lost, as when a VM moves: no datagrams, no UC
    std::uint32_t testifies = 0; // results go to the transcript, and no process is killed

    // The side whose process is killed, or `nobody`.
    unsigned victim() const;
};

struct Side {
    unsigned number = 0; // 0: the server
    std::string device;
    int gid_index = 0;
    std::function<ControlConnection()> connect; // a new connection to the peer
    std::string transcript; // the file to which the client writes what both sides report
};

// Returns when all conversations have ended; ends the process at the first failure.
void play(const Round& round, const Side& side);

} // namespace vrdma::torture
