// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "torture/hostile/messages.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cerrno>

namespace vrdma::torture::hostile {
namespace {

// Room for the one descriptor of a message.
struct Control {
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> bytes{};

    void put(msghdr& message, int fd) {
        message.msg_control = bytes.data();
        message.msg_controllen = bytes.size();
        cmsghdr* const header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(fd));
        std::memcpy(CMSG_DATA(header), &fd, sizeof(fd));
    }
};

// Keeps a descriptor that came with the message.
void take_fd(msghdr& message, UniqueFd& into) {
    const cmsghdr* const header = CMSG_FIRSTHDR(&message);
    if (header == nullptr || header->cmsg_type != SCM_RIGHTS) {
        return;
    }
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(header), sizeof(fd));
    into = UniqueFd{fd};
}

void receive(const UniqueFd& socket, std::span<std::byte> into, UniqueFd& fd) {
    while (!into.empty()) {
        Control control;
        iovec part{into.data(), into.size()};
        msghdr message{};
        message.msg_iov = &part;
        message.msg_iovlen = 1;
        message.msg_control = control.bytes.data();
        message.msg_controllen = control.bytes.size();
        const ssize_t received = ::recvmsg(socket.get(), &message, MSG_CMSG_CLOEXEC);
        require(received > 0, "the device's socket is closed");
        take_fd(message, fd);
        into = into.subspan(static_cast<std::size_t>(received));
    }
}

} // namespace

UniqueFd connect_to(const std::string& path) {
    UniqueFd socket{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    require(path.size() < sizeof(address.sun_path), "a path that no socket has");
    path.copy(address.sun_path, path.size());
    check(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0
              ? errno
              : 0,
          "connect");
    return socket;
}

Reply converse(const UniqueFd& socket, vfio_user_command number, std::span<const std::byte> payload,
               int fd) {
    vfio_user_header header{1, static_cast<std::uint16_t>(number),
                            static_cast<std::uint32_t>(sizeof(header) + payload.size()), 0, 0};
    std::array<iovec, 2> parts{
        {{&header, sizeof(header)}, {const_cast<std::byte*>(payload.data()), payload.size()}}};
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    Control control;
    if (fd >= 0) {
        control.put(message, fd);
    }
    require(::sendmsg(socket.get(), &message, MSG_NOSIGNAL) == header.size,
            "the device's socket takes no message");
    Reply reply;
    receive(socket, std::as_writable_bytes(std::span{&header, 1}), reply.fd);
    require(header.error == 0 && header.size >= sizeof(header), "the device refuses a message");
    reply.payload.resize(header.size - sizeof(header));
    receive(socket, reply.payload, reply.fd);
    return reply;
}

} // namespace vrdma::torture::hostile
