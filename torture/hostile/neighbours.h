// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Each neighbour is in the file of its name.
#pragma once

#include "torture/hostile/neighbour.h"

namespace vrdma::torture::hostile {

// These use verbs only.
[[noreturn]] void write_flood(const Seat& seat, Pace& pace);
[[noreturn]] void moderated_cqs(const Seat& seat, Pace& pace);
[[noreturn]] void multicast_flood(const Seat& seat, Pace& pace);
[[noreturn]] void odp_storm(const Seat& seat, Pace& pace);
[[noreturn]] void odp_silence(const Seat& seat, Pace& pace);
[[noreturn]] void garbage_requests(const Seat& seat, Pace& pace);

// These need what only the client of a socket can do.
[[noreturn]] void hole_punching(const Seat& seat, Pace& pace);
[[noreturn]] void registration_storm(const Seat& seat, Pace& pace);
[[noreturn]] void doorbell_storm(const Seat& seat, Pace& pace);
[[noreturn]] void garbage_commands(const Seat& seat, Pace& pace);

// This one sends from the network.
[[noreturn]] void packet_flood(const Seat& seat, Pace& pace);

} // namespace vrdma::torture::hostile
