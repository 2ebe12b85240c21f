// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Finds the slice whose QP1 gets a management datagram, if several functions have the datagram's
// GID (see vrdma_cmd_listen).
#pragma once

#include "mediator/hca/soft/slice/request.h"

namespace vrdma::hca::soft {

// nullptr: no slice gets it.
SliceCore* find_gsi(const RoutingTable& routes, const GidKey& key, const Request& request) noexcept;

} // namespace vrdma::hca::soft
