// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Retransmits what was lost, from the oldest packet that is not acknowledged (go-back-N), as long
// as there are retries left (IBA 9.7.5.2.8, 9.7.6).
#pragma once

#include "mediator/hca/soft/transport/roce/connection.h"

namespace vrdma::hca::soft::roce {

enum class Cue : std::uint8_t { told, silence };

// Retransmits, if there are retries left.
void try_again(Connection& connection, Cue cue) noexcept;
// The same when the peer has had time to post a receive.
void try_when_ready(Connection& connection, std::uint8_t timer) noexcept;
// A response was lost, as a later packet shows. Further packets that show the same are ignored.
void recover(Connection& connection) noexcept;

// The connection's timer has expired. It may have been set too early.
void expire(Connection& connection, Clock::time_point now) noexcept;

} // namespace vrdma::hca::soft::roce
