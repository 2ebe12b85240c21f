// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The state machine of queue pairs: which transitions exist, and which attributes each needs and
// allows (IBA 11.2.5.2, tables 91-94).
#pragma once

#include <cstdint>

#include "mediator/base/result.h"
#include "mediator/hca/queue_pair.h"

namespace vrdma::verbs {

// States are those of enum ibv_qp_state, and attributes are those of enum ibv_qp_attr_mask. Fails
// with EOPNOTSUPP for attributes of path migration and other unsupported ones.
Result<> check_transition(hca::QpType type, std::uint8_t from, std::uint8_t to,
                          std::uint32_t attr_mask);

} // namespace vrdma::verbs
