// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// What a slice wants to have found out of its network: for whose Ethernet addresses it has packets.
// They wait here for the control thread. One too many costs the slice its oldest; who has packets
// for that one asks again.
#pragma once

#include <cstdint>

#include "mediator/base/gid.h"
#include "mediator/hca/soft/list.h"
#include "mediator/hca/soft/roce/ring.h"

namespace vrdma::hca::soft::roce {

// Who has that address is to be found out.
struct Unknown {
    std::uint64_t device = 0; // that wants to know; the same after its reset
    Gid source{};
    Gid target{};
    std::uint16_t vlan = 0; // that both are in, or none
};

struct Questions {
    static constexpr std::size_t most = 64;

    std::uint64_t device = 0;
    Ring<Unknown, most> unknown;
    Link<Questions> asked; // there are some

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
