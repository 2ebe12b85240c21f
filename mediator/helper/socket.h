// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The socket by which vrdmad and a helper talk, and the calls of the helper, which block.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "mediator/base/result.h"
#include "mediator/base/unique_fd.h"
#include "mediator/helper/fields.h"

namespace vrdma::helper {

struct SocketPair {
    UniqueFd ours; // vrdmad's
    UniqueFd its;  // the helper's
};

// A pair of SOCK_SEQPACKET sockets.
Result<SocketPair> open_socket_pair();

// Like send(2) without waiting, with a descriptor of which the other side gets a copy.
Result<> send_with(int socket, std::span<const std::byte> message, int descriptor);

// Waits while vrdmad is busy. If vrdmad is gone, the helper learns that elsewhere.
void send(int socket, std::span<const std::byte> message);

// Returns the next message, of `most` bytes at most. None: the socket has ended.
std::optional<Message> receive(int socket, std::size_t most);

struct Received {
    Message message;
    UniqueFd descriptor; // that came with it, or none
};
std::optional<Received> receive_with(int socket, std::size_t most);

} // namespace vrdma::helper
