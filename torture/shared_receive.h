// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Shared receive queues, which have room for all receives of an arena.
#pragma once

#include <cstdint>

#include "torture/device.h"

namespace vrdma::torture {

constexpr std::uint32_t srq_sges = 8;

Srq made_srq(ibv_pd* pd);
// Only this process uses the domain.
Xrcd made_xrcd(const Device& device);
Srq made_xrc_srq(const Device& device, ibv_pd* pd, ibv_xrcd* xrcd, ibv_cq* cq);

} // namespace vrdma::torture
