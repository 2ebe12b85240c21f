// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A round whose scenes verify nothing. Instead, both sides report everything that they observe, and
// the client writes it to a file. The file is the same for all placements of the two sides.
#pragma once

#include "torture/round.h"

namespace vrdma::torture {

// Plays scenes until the round's steps are done. A step is a posted request. The client, side 1,
// writes the file.
void testify(const Round& round, const Side& side);

} // namespace vrdma::torture
