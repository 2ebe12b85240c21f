// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The 40 bytes before a datagram in its receive buffer, as RoCE leaves them there: the GRH, or the
// IPv6 header, or 20 zeros and the IPv4 header (RoCE v2 between IPv4-mapped GIDs).
#pragma once

#include <array>

#include "mediator/hca/soft/routing/route.h"
#include "vrdma/device.h"

namespace vrdma::hca::soft {

using Grh = std::array<std::byte, VRDMA_UD_GRH_SIZE>;

// Which of the three it is: VRDMA_CQE_HEADER_*.
std::uint8_t header_kind(const GidKey& source, const vrdma_av& av) noexcept;

Grh make_grh(const GidKey& source, const vrdma_av& av, std::uint32_t payload_length,
             bool has_imm) noexcept;

} // namespace vrdma::hca::soft
