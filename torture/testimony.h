// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A round whose scenes verify nothing: both sides tell all that they see, and it is written to a
// file. It is the same wherever the two sides are.
#pragma once

#include "torture/round.h"

namespace vrdma::torture {

// Plays so many steps of the round, which each are a posted request. The client, side 1, writes.
void testify(const Round& round, const Side& side);

} // namespace vrdma::torture
