// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A process on each side, whose threads converse with their like on the other. It begins with
// opening the device and ends with closing it, or with the death of one of the two.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "torture/link.h"

namespace vrdma::torture {

// What the sides agree on.
struct Round {
    std::uint64_t seed = 0;
    std::uint32_t number = 0;
    std::uint32_t conversations = 0;
    std::uint32_t steps = 0;
    std::uint32_t testifies = 0; // what is seen is told, and nobody dies

    // Which side dies, or `nobody`.
    unsigned victim() const;
};

struct Side {
    unsigned number = 0; // 0: the server
    std::string device;
    int gid_index = 0;
    std::function<Link()> link; // a new connection to the peer
    std::string transcript;     // the file to which the client writes what is told
};

// Returns when all conversations have ended; ends the process at the first failure.
void play(const Round& round, const Side& side);

} // namespace vrdma::torture
