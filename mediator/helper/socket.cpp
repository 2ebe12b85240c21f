// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/helper/socket.h"

#include <sys/socket.h>

#include <array>
#include <cstring>

#include "mediator/base/errno.h"

namespace vrdma::helper {
namespace {

// Room for one descriptor beside a message (cmsg(3)).
struct Ancillary {
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> bytes{};
};

msghdr header_of(iovec& part, Ancillary& ancillary) {
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = ancillary.bytes.data();
    header.msg_controllen = ancillary.bytes.size();
    return header;
}

UniqueFd descriptor_of(msghdr& header) {
    const cmsghdr* const first = CMSG_FIRSTHDR(&header);
    if (first == nullptr || first->cmsg_level != SOL_SOCKET || first->cmsg_type != SCM_RIGHTS ||
        first->cmsg_len != CMSG_LEN(sizeof(int))) {
        return {};
    }
    int descriptor = -1;
    std::memcpy(&descriptor, CMSG_DATA(first), sizeof(descriptor));
    return UniqueFd{descriptor};
}

} // namespace

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

Result<> send_with(int socket, std::span<const std::byte> message, int descriptor) {
    iovec part{const_cast<std::byte*>(message.data()), message.size()};
    Ancillary ancillary;
    msghdr header = header_of(part, ancillary);
    cmsghdr* const first = CMSG_FIRSTHDR(&header);
    first->cmsg_level = SOL_SOCKET;
    first->cmsg_type = SCM_RIGHTS;
    first->cmsg_len = CMSG_LEN(sizeof(descriptor));
    std::memcpy(CMSG_DATA(first), &descriptor, sizeof(descriptor));
    return ::sendmsg(socket, &header, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? fail_errno() : Result<>{};
}

std::optional<Received> receive_with(int socket, std::size_t most) {
    Received received{Message(most), {}};
    iovec part{received.message.data(), received.message.size()};
    Ancillary ancillary;
    msghdr header = header_of(part, ancillary);
    const ssize_t size = ::recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
    if (size <= 0) {
        return std::nullopt;
    }
    received.message.resize(static_cast<std::size_t>(size));
    received.descriptor = descriptor_of(header);
    return received;
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
