// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The part of packets below their transport, from the address vector that a guest gave.
#pragma once

#include "mediator/hca/soft/slice/request.h"
#include "mediator/wire/packet.h"

namespace vrdma::hca::soft {

// The path from the slice's own address to the route's target, in a class that the slice may use,
// but without a priority. If the target's Ethernet address is all zeros, the guest gave none.
wire::Path path_of(const SliceCore& slice, const Route& route, const vrdma_av& av) noexcept;

} // namespace vrdma::hca::soft
