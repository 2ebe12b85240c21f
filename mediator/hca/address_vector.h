// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The rules for an address vector that need no GID table: in an AH, a QP or a WQE.
#pragma once

#include <algorithm>
#include <cstdint>

#include "mediator/base/gid.h"
#include "vrdma/device.h"

namespace vrdma::hca {

inline constexpr std::uint8_t port_number = 1;
inline constexpr std::uint8_t max_sl = 15;

// The Ethernet address must be a group's exactly if the GID is, because frames to a group reach
// many hosts. All zeros are allowed: the sender then finds the Ethernet address.
inline bool has_fitting_mac(const vrdma_av& av) noexcept {
    constexpr std::uint8_t group_bit = 1;
    Gid target;
    std::ranges::copy(av.dgid, target.begin());
    const bool to_group = is_multicast(target);
    return ((av.dmac[0] & group_bit) != 0) == to_group ||
           (to_group && std::ranges::all_of(av.dmac, [](std::uint8_t byte) { return byte == 0; }));
}

inline bool is_well_formed(const vrdma_av& av) noexcept {
    const bool has_dgid = std::ranges::any_of(av.dgid, [](std::uint8_t byte) { return byte != 0; });
    return has_dgid && av.reserved == 0 && av.port_num == port_number && av.sl <= max_sl &&
           av.flow_label <= VRDMA_AV_FLOW_LABEL && has_fitting_mac(av);
}

} // namespace vrdma::hca
