// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The socket by which vrdmad and a helper talk, and what a helper does with its end: it waits.
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

// Of SOCK_SEQPACKET.
Result<SocketPair> open_socket_pair();

// vrdmad may be busy, and is then waited for. If it is gone, that shows elsewhere.
void send(int socket, std::span<const std::byte> message);

// The next message, of so many bytes at most. None: the socket has ended.
std::optional<Message> receive(int socket, std::size_t most);

} // namespace vrdma::helper
