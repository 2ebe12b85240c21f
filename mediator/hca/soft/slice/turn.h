// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The result of a QP's turn.
#pragma once

#include <cstdint>

namespace vrdma::hca::soft {

enum class Turn : std::uint8_t {
    idle, // found nothing to do
    more, // did something, and there may be more
};

} // namespace vrdma::hca::soft
