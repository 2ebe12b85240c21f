// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Hostile neighbours: what a guest may do with its own device so that the devices of others become
// slow or break. Each neighbour is one function, which ends with its process.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "torture/random.h"

namespace vrdma::torture::hostile {

// The access that a neighbour has.
struct Seat {
    std::string device;
    int gid_index = 0;
    std::string socket;  // of a device behind a socket, or empty
    std::string network; // IPv4 address of a device on an uplink that packets reach, or empty
    std::uint64_t seed = 0;
};

// Paces a neighbour. It sleeps between two pieces of work, so that it harms others by its device,
// and not by the processor that it runs on.
class Pace {
  public:
    virtual ~Pace() = default;
    // Called when all is prepared, and before each piece of work.
    virtual void rest() = 0;
};

enum class Needs { verbs, socket, network };

struct Neighbour {
    const char* name;
    const char* what;
    Needs needs;
    // Never returns. It alternates work and rest until its process is killed.
    void (*work)(const Seat&, Pace&);

    bool possible(const Seat& seat) const;
};

std::span<const Neighbour> neighbours();

} // namespace vrdma::torture::hostile
