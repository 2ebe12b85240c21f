// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A packet socket (packet(7)) that sees RoCE frames that an interface receives, before anything
// else in the host does, and none that the interface sends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "mediator/base/result.h"
#include "mediator/base/unique_fd.h"

namespace vrdma::wire {

// Without the VLAN tag.
struct FrameLengths {
    std::size_t least;
    std::size_t most;
};

// The socket receives frames of these lengths, but nothing until it is bound. An `Offload` lies
// before each frame.
Result<UniqueFd> open_packet_socket(FrameLengths lengths = {0, SIZE_MAX});
Result<> bind_packet_socket(int socket, int link_index);

// A socket that sends by that interface only, with that priority (SO_PRIORITY). It expects an
// `Offload` before each frame.
Result<UniqueFd> open_sending_socket(int link_index, int priority);

// Closes them at the same time. The kernel waits for a grace period of RCU (10 to 40 ms) before it
// frees a packet socket. Sockets that are closed together wait for the same one.
void close_packet_sockets(std::span<UniqueFd> sockets) noexcept;

} // namespace vrdma::wire
