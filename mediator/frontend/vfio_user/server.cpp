// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/frontend/vfio_user/server.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <cstring>

#include "mediator/base/errno.h"

namespace vrdma::vfio_user {
namespace {

Result<sockaddr_un> address_of(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.empty() || path.size() >= sizeof(address.sun_path)) {
        return fail(std::errc::filename_too_long);
    }
    std::memcpy(address.sun_path, path.c_str(), path.size());
    return address;
}

UniqueFd stream_socket() {
    return UniqueFd{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
}

const sockaddr* generic(const sockaddr_un& address) {
    return reinterpret_cast<const sockaddr*>(&address);
}

// What a mediator that was killed left behind: a socket that refuses connections.
void remove_stale(const sockaddr_un& address) {
    struct stat status {};
    const UniqueFd probe = stream_socket();
    if (::lstat(address.sun_path, &status) == 0 && S_ISSOCK(status.st_mode) &&
        ::connect(probe.get(), generic(address), sizeof(address)) != 0 && errno == ECONNREFUSED) {
        ::unlink(address.sun_path);
    }
}

// Nobody can connect before the socket has its owner and mode.
Result<UniqueFd> bind_socket(const SocketOptions& options) {
    const auto address = address_of(options.path);
    if (!address) {
        return fail(address.error());
    }
    remove_stale(*address);
    UniqueFd fd = stream_socket();
    if (!fd || ::bind(fd.get(), generic(*address), sizeof(*address)) != 0) {
        return fail_errno();
    }
    if (::chmod(address->sun_path, options.mode) != 0 ||
        ::chown(address->sun_path, options.owner, options.group) != 0 ||
        ::listen(fd.get(), SOMAXCONN) != 0) {
        const auto error = fail_errno();
        ::unlink(address->sun_path);
        return error;
    }
    return fd;
}

} // namespace

std::unique_ptr<Server> Server::create(std::string name,
                                       std::vector<std::unique_ptr<Function>> functions,
                                       EventLoop& loop) {
    std::unique_ptr<Server> server{new Server{std::move(name)}};
    for (auto& function : functions) {
        server->seats_.push_back(std::make_unique<Seat>(std::move(function), loop));
    }
    return server;
}

Result<std::unique_ptr<Server>> Server::listen(const SocketOptions& options, std::string name,
                                               std::vector<std::unique_ptr<Function>> functions,
                                               EventLoop& loop) {
    auto socket = bind_socket(options);
    if (!socket) {
        return fail(socket.error());
    }
    auto server = create(std::move(name), std::move(functions), loop);
    server->path_ = options.path;
    server->socket_ = std::move(*socket);
    auto connections = loop.watch(server->socket_.get(),
                                  [self = server.get()](std::uint32_t) { self->on_connection(); });
    if (!connections) {
        return fail(connections.error());
    }
    server->connections_ = std::move(*connections);
    server->log_.info("serves {}", options.path);
    return server;
}

Server::~Server() {
    if (socket_) {
        ::unlink(path_.c_str());
    }
}

void Server::on_connection() {
    UniqueFd socket{::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
    if (socket) {
        accept(std::move(socket));
    }
}

void Server::accept(UniqueFd socket) {
    const auto seat =
        std::ranges::find_if(seats_, [](const auto& each) { return each->is_free(); });
    if (seat == seats_.end()) {
        log_.warn("refuses another client: it has {}", seats_.size());
        return;
    }
    (*seat)->take(std::move(socket));
}

} // namespace vrdma::vfio_user
