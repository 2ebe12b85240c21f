// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Runs neighbours in processes of their own, one after the other. Each is killed while it works.
#pragma once

#include <chrono>
#include <string>

#include "torture/hostile/neighbour.h"

namespace vrdma::torture::hostile {

// Runs the neighbour of that name all the time, or, with an empty name, random neighbours one after
// another. Prints when each is at work. False: a neighbour could not start its work.
bool be_hostile(Seat seat, const std::string& name, std::chrono::seconds duration);

// Prints a line for each.
void list_neighbours();

} // namespace vrdma::torture::hostile
