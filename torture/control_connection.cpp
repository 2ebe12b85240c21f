// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "torture/control_connection.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

#include "torture/failure.h"

namespace vrdma::torture {
namespace {

constexpr int patience_s = 120;

struct FreeAddresses {
    void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};

std::unique_ptr<addrinfo, FreeAddresses> addresses(const char* host, const std::string& port) {
    addrinfo hints{};
    hints.ai_family = AF_INET;
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = host == nullptr ? AI_PASSIVE : 0;
    addrinfo* list = nullptr;
    const int error = ::getaddrinfo(host, port.c_str(), &hints, &list);
    if (error != 0) {
        fail(std::string{"getaddrinfo: "} + ::gai_strerror(error));
    }
    return std::unique_ptr<addrinfo, FreeAddresses>{list};
}

int new_socket(const addrinfo& address) {
    const int fd = ::socket(address.ai_family, address.ai_socktype | SOCK_CLOEXEC, 0);
    require(fd >= 0, "socket");
    return fd;
}

ControlConnection configured(int fd) {
    const int on = 1;
    const timeval patience{patience_s, 0};
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    return ControlConnection{fd};
}

} // namespace

ControlConnection::~ControlConnection() {
    if (fd_ >= 0) {
        ::close(fd_);
    }
}

ControlConnection ControlConnection::connect(const std::string& host, const std::string& port) {
    const auto to = addresses(host.c_str(), port);
    const int fd = new_socket(*to);
    check(::connect(fd, to->ai_addr, to->ai_addrlen) != 0 ? errno : 0, "connect");
    return configured(fd);
}

ControlConnection ControlConnection::accept(int listener) {
    const int fd = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    check(fd < 0 ? errno : 0, "accept");
    return configured(fd);
}

void ControlConnection::send(std::span<const std::byte> bytes) const {
    while (!bytes.empty()) {
        const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (sent <= 0) {
            lost_peer("the connection to the peer is broken");
        }
        bytes = bytes.subspan(static_cast<std::size_t>(sent));
    }
}

void ControlConnection::receive(std::span<std::byte> bytes) const {
    while (!bytes.empty()) {
        const ssize_t got = ::recv(fd_, bytes.data(), bytes.size(), 0);
        if (got <= 0) {
            lost_peer(got < 0 && errno == EAGAIN ? "the peer does not answer" : "the peer is gone");
        }
        bytes = bytes.subspan(static_cast<std::size_t>(got));
    }
}

void ControlConnection::meet(std::uint64_t token) const {
    require(exchange(token) == token, "the two sides play different scripts");
}

bool ControlConnection::closed() const {
    pollfd descriptor{fd_, POLLRDHUP, 0};
    return ::poll(&descriptor, 1, 0) == 1;
}

int listen_at(const std::string& port) {
    const auto at = addresses(nullptr, port);
    const int fd = new_socket(*at);
    const int on = 1;
    ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    check(::bind(fd, at->ai_addr, at->ai_addrlen) != 0 || ::listen(fd, SOMAXCONN) != 0 ? errno : 0,
          "listen");
    return fd;
}

} // namespace vrdma::torture
