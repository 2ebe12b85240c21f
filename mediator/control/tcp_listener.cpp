// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/control/tcp_listener.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <memory>

#include "mediator/base/errno.h"

namespace vrdma::control {
namespace {

struct Free {
    void operator()(addrinfo* list) const noexcept { ::freeaddrinfo(list); }
};

} // namespace

Result<UniqueFd> listen_at(const wire::fabric::Address& address) {
    addrinfo hints{};
    hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV; // no name service is asked
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (::getaddrinfo(address.host.c_str(), address.service.c_str(), &hints, &found) != 0) {
        return fail(std::errc::invalid_argument);
    }
    const std::unique_ptr<addrinfo, Free> list{found};
    UniqueFd socket{
        ::socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, list->ai_protocol)};
    // Connections of the vrdmad before may still be in TIME_WAIT, and the address may come later.
    constexpr int on = 1;
    if (!socket || ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
        ::setsockopt(socket.get(), IPPROTO_IP, IP_FREEBIND, &on, sizeof(on)) != 0 ||
        ::bind(socket.get(), list->ai_addr, list->ai_addrlen) != 0 ||
        ::listen(socket.get(), SOMAXCONN) != 0) {
        return fail_errno();
    }
    return socket;
}

} // namespace vrdma::control
