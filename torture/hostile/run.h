// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Neighbours in processes of their own, one after the other, each of which is killed at its work.
#pragma once

#include <chrono>
#include <string>

#include "torture/hostile/neighbour.h"

namespace vrdma::torture::hostile {

// The one of that name all the time, or with an empty name one after another at random. Says when
// each is at work. False: one could not do what it is for.
bool be_hostile(Seat seat, const std::string& name, std::chrono::seconds duration);

// A line for each.
void list_neighbours();

} // namespace vrdma::torture::hostile
