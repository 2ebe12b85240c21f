// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The rules for an address vector that need no GID table: in an AH, a QP or a WQE.
#pragma once

#include <algorithm>
#include <cstdint>

#include "vrdma/device.h"

namespace vrdma::hca {

inline constexpr std::uint8_t port_number = 1;
inline constexpr std::uint8_t max_sl = 15;

inline bool is_well_formed(const vrdma_av& av) noexcept {
    const bool has_dgid = std::ranges::any_of(av.dgid, [](std::uint8_t byte) { return byte != 0; });
    return has_dgid && av.reserved == 0 && av.port_num == port_number && av.sl <= max_sl &&
           av.flow_label <= VRDMA_AV_FLOW_LABEL;
}

} // namespace vrdma::hca
