// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/helper/socket.h"

#include <sys/socket.h>

#include <array>

#include "mediator/base/errno.h"

namespace vrdma::helper {

Result<SocketPair> open_socket_pair() {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
        return fail_errno();
    }
    return SocketPair{UniqueFd{ends[0]}, UniqueFd{ends[1]}};
}

void send(int socket, std::span<const std::byte> message) {
    static_cast<void>(::send(socket, message.data(), message.size(), MSG_NOSIGNAL));
}

std::optional<Message> receive(int socket, std::size_t most) {
    Message message(most);
    const ssize_t size = ::recv(socket, message.data(), message.size(), 0);
    if (size <= 0) {
        return std::nullopt;
    }
    message.resize(static_cast<std::size_t>(size));
    return message;
}

} // namespace vrdma::helper
