// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Whose QP1 a management datagram is for, where several functions have its GID: vrdma_cmd_listen.
#pragma once

#include "mediator/hca/soft/request.h"

namespace vrdma::hca::soft {

// nullptr: nobody's.
SliceCore* find_gsi(const Fabric& fabric, const GidKey& key, const Request& request) noexcept;

} // namespace vrdma::hca::soft
