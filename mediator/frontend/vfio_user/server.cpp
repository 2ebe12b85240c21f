// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/frontend/vfio_user/server.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cstring>

#include "mediator/base/errno.h"

namespace vrdma::vfio_user {
namespace {

// A client's share of the control thread before others get their turn.
constexpr int commands_per_turn = 16;

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

std::unique_ptr<Server> Server::create(std::string name, std::unique_ptr<Function> function,
                                       EventLoop& loop) {
    return std::unique_ptr<Server>{new Server{std::move(name), std::move(function), loop}};
}

Result<std::unique_ptr<Server>> Server::listen(const SocketOptions& options, std::string name,
                                               std::unique_ptr<Function> function,
                                               EventLoop& loop) {
    auto socket = bind_socket(options);
    if (!socket) {
        return fail(socket.error());
    }
    auto server = create(std::move(name), std::move(function), loop);
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
    if (client_) { // it may be gone, and that not have been heard yet
        on_client();
    }
    if (client_) {
        log_.warn("refuses a second client");
        return;
    }
    client_.emplace(Client{Channel{std::move(socket)}, Session{*function_, log_}, {}, false});
    if (const auto watched = watch_client(); !watched) {
        drop(watched.error());
        return;
    }
    log_.info("a client connected");
}

Result<> Server::watch_client() {
    client_->watch = {};
    client_->awaits_room = client_->channel.blocked();
    auto watch = loop_.watch(
        client_->channel.fd(), [this](std::uint32_t) { on_client(); },
        client_->awaits_room ? EPOLLOUT : EPOLLIN);
    if (!watch) {
        return fail(watch.error());
    }
    client_->watch = std::move(*watch);
    return {};
}

void Server::on_client() {
    auto served = serve();
    if (served && client_->channel.blocked() != client_->awaits_room) {
        served = watch_client();
    }
    if (!served) {
        drop(served.error());
    }
}

// A client that does not take its replies is not served before it does.
Result<> Server::serve() {
    if (const auto flushed = client_->channel.flush(); !flushed) {
        return flushed;
    }
    for (int i = 0; i < commands_per_turn && !client_->channel.blocked(); ++i) {
        auto message = client_->channel.receive();
        if (!message) {
            return fail(message.error());
        }
        if (!*message) {
            break;
        }
        if (const auto executed = execute(std::move(**message)); !executed) {
            return executed;
        }
    }
    return {};
}

Result<> Server::execute(Message message) {
    vfio_user_header header = message.header;
    if (VRDMA_GET(VFIO_USER_F_TYPE, header.flags) != VFIO_USER_TYPE_COMMAND ||
        (header.flags & ~(VFIO_USER_F_TYPE | VFIO_USER_F_NO_REPLY)) != 0) {
        return fail(std::errc::bad_message);
    }
    auto answer = client_->session.execute(message);
    if (!answer) {
        log_.debug("command {} of a client refused: {}", header.command, describe(answer.error()));
    }
    if ((header.flags & VFIO_USER_F_NO_REPLY) == 0) {
        Answer reply = answer ? std::move(*answer) : Answer{};
        header.size = static_cast<std::uint32_t>(sizeof(header) + reply.payload.size());
        header.flags =
            VRDMA_SET(VFIO_USER_F_TYPE, VFIO_USER_TYPE_REPLY) | (answer ? 0 : VFIO_USER_F_ERROR);
        header.error = answer ? 0 : static_cast<std::uint32_t>(answer.error());
        if (const auto sent = client_->channel.send(header, std::move(reply)); !sent) {
            return sent;
        }
    }
    // Who does not speak our protocol is told so, and that is all.
    return client_->session.negotiated() ? Result<>{} : fail(std::errc::protocol_not_supported);
}

void Server::drop(std::errc why) {
    log_.info("its client is gone: {}", describe(why));
    client_.reset();
    if (const auto ready = function_->start_anew(); !ready) {
        log_.warn("takes no more clients: {}", describe(ready.error()));
        connections_ = {};
    }
}

} // namespace vrdma::vfio_user
