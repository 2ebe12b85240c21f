// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A slice's questions for Ethernet addresses to which it has packets. They wait here for the
// control thread. If there are too many, the slice loses its oldest question. A QP that has packets
// for that address asks again.
#pragma once

#include <cstdint>

#include "mediator/base/gid.h"
#include "mediator/hca/soft/common/list.h"
#include "mediator/hca/soft/common/ring.h"

namespace vrdma::hca::soft::roce {

// A question for the Ethernet address of a GID.
struct Unknown {
    std::uint64_t device = 0; // that asks; the same after its reset
    Gid source{};
    Gid target{};
    std::uint16_t vlan = 0; // of both, or none
};

struct Questions {
    static constexpr std::size_t most = 64;

    std::uint64_t device = 0;
    Ring<Unknown, most> unknown;
    ListHook<Questions> asked; // while there are some

    bool contains(const Gid& target, std::uint16_t vlan) const noexcept {
        for (std::size_t i = 0; i < unknown.size(); ++i) {
            if (unknown[i].target == target && unknown[i].vlan == vlan) {
                return true;
            }
        }
        return false;
    }
};

} // namespace vrdma::hca::soft::roce
