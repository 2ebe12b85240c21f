// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/frontend/vfio_user/server.h"

#include <sys/socket.h>

#include <algorithm>

#include "mediator/base/errno.h"

namespace vrdma::vfio_user {

std::unique_ptr<Server> Server::create(std::string name,
                                       std::vector<std::unique_ptr<Function>> functions,
                                       EventLoop& loop, const Pace& pace) {
    std::unique_ptr<Server> server{new Server{std::move(name), loop, pace}};
    for (auto& function : functions) {
        server->slots_.push_back(
            std::make_unique<ClientSlot>(std::move(function), loop, pace.timeout));
    }
    return server;
}

Result<std::unique_ptr<Server>> Server::listen(ListeningSocket socket, std::string name,
                                               std::vector<std::unique_ptr<Function>> functions,
                                               EventLoop& loop, const Pace& pace) {
    auto server = create(std::move(name), std::move(functions), loop, pace);
    server->socket_.emplace(std::move(socket));
    if (const auto watched = server->watch_connections(); !watched) {
        return fail(watched.error());
    }
    server->log_.info("serves {}", server->socket_->path());
    return server;
}

Result<> Server::watch_connections() {
    auto watch = loop_.watch(socket_->fd(), [this](std::uint32_t) { on_connection(); });
    if (!watch) {
        return fail(watch.error());
    }
    connections_ = std::move(*watch);
    return {};
}

void Server::on_connection() {
    UniqueFd socket{::accept4(socket_->fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
    if (socket) {
        accept(std::move(socket));
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        pause(static_cast<std::errc>(errno));
    }
}

// Stops watching the socket, which would be ready all the time. Clients that connect wait
// meanwhile.
void Server::pause(std::errc why) {
    log_.warn("accepts no client now: {}", describe(why));
    connections_ = {};
    resumes_ = loop_.after(pace_.pause, [this] {
        if (const auto watched = watch_connections(); !watched) {
            pause(watched.error());
        }
    });
}

void Server::accept(UniqueFd socket) {
    const auto slot =
        std::ranges::find_if(slots_, [](const auto& each) { return each->is_free(); });
    if (slot == slots_.end()) {
        log_.warn("refuses another client: it has {}", slots_.size());
        return;
    }
    (*slot)->take(std::move(socket));
}

std::vector<Device*> Server::devices() const {
    std::vector<Device*> devices;
    devices.reserve(slots_.size());
    for (const auto& slot : slots_) {
        devices.push_back(&slot->device());
    }
    return devices;
}

std::size_t Server::clients() {
    return static_cast<std::size_t>(
        std::ranges::count_if(slots_, [](const auto& slot) { return slot->is_used(); }));
}

void Server::hang_up() {
    close();
    for (const auto& slot : slots_) {
        slot->hang_up();
    }
}

void Server::hang_up_unanswered() {
    for (const auto& slot : slots_) {
        slot->hang_up_unanswered();
    }
}

void Server::close() {
    resumes_ = {};
    connections_ = {};
    socket_.reset();
}

void Server::set_share(const hca::Share& share) {
    for (const auto& slot : slots_) {
        slot->set_share(share);
    }
}

void Server::freeze() {
    close();
    for (const auto& slot : slots_) {
        slot->freeze();
    }
}

void Server::keep() {
    for (const auto& slot : slots_) {
        slot->keep();
    }
}

void Server::part(const std::function<void()>& gone) {
    for (const auto& slot : slots_) {
        slot->part(gone);
    }
}

bool Server::awaits() const {
    return std::ranges::any_of(slots_, [](const auto& slot) { return slot->awaits(); });
}

} // namespace vrdma::vfio_user
