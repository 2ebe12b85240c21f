// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/directory/client.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <utility>

#include "mediator/base/errno.h"

namespace vrdma::directory {

Result<std::unique_ptr<Client>> Client::open(const std::string& name, UniqueFd socket,
                                             const Task& task, EventLoop& loop, OnHosts on_hosts,
                                             std::chrono::milliseconds timeout) {
    auto message = pack(Order{task});
    if (!message) {
        return fail(std::errc::filename_too_long);
    }
    std::unique_ptr<Client> client{
        new Client{name, std::move(socket), std::move(*message), loop, std::move(on_hosts)}};
    auto messages =
        loop.watch(client->socket_.get(), [all = client.get()](std::uint32_t) { all->hear(); });
    if (!messages) {
        return fail(messages.error());
    }
    client->messages_ = std::move(*messages);
    client->begins_ = loop.after(timeout, [all = client.get()] {
        all->log_.warn("vrdma-directory has not started yet; its supervisor keeps trying");
    });
    return client;
}

Client::Client(const std::string& name, UniqueFd socket, Message task, EventLoop& loop,
               OnHosts on_hosts)
    : log_{name},
      socket_{std::move(socket)},
      task_{std::move(task)},
      loop_{loop},
      on_hosts_{std::move(on_hosts)} {}

// Waits for the process to end: recv() returns 0 when nobody has the other end any more.
Client::~Client() {
    messages_ = {};
    if (!socket_) {
        return;
    }
    ::shutdown(socket_.get(), SHUT_WR);
    const auto limit = EventLoop::Clock::now() + end_limit;
    std::array<std::byte, 1> rest{};
    while (EventLoop::Clock::now() < limit) {
        constexpr int milliseconds = 100;
        pollfd ready{socket_.get(), POLLIN, 0};
        if (::poll(&ready, 1, milliseconds) > 0 &&
            ::recv(socket_.get(), rest.data(), rest.size(), MSG_DONTWAIT) == 0) {
            return;
        }
    }
}

void Client::set(std::set<Gid> gids) {
    if (gids.size() > Entry::max_gids) {
        log_.warn("more than {} addresses are not in the directory", Entry::max_gids);
        gids.erase(std::next(gids.begin(), Entry::max_gids), gids.end());
    }
    here_ = std::move(gids);
    tell_gids_ = true;
    tell();
}

void Client::repeat() {
    tell_repeat_ = true;
    tell();
}

void Client::hear() {
    std::array<std::byte, max_message> message; // NOLINT(*-member-init): recv() fills it
    complete_ = false;
    for (int i = 0; i < turn && socket_ && !complete_; ++i) {
        const ssize_t size =
            ::recv(socket_.get(), message.data(), message.size(), MSG_DONTWAIT | MSG_TRUNC);
        if (size < 0 && (errno == EAGAIN || errno == EINTR)) {
            return;
        }
        if (size <= 0) {
            return end("it has ended");
        }
        const auto length = static_cast<std::size_t>(size);
        const auto news =
            length <= message.size() ? read_news(std::span{message}.first(length)) : std::nullopt;
        if (!news || !hear(*news)) {
            return end("it sent an invalid message");
        }
    }
}

// Returns whether the message makes sense.
bool Client::hear(const News& news) {
    if (!began_ && !std::holds_alternative<Began>(news)) {
        return std::holds_alternative<Said>(news) && hear(std::get<Said>(news));
    }
    return std::visit([this](const auto& one) { return hear(one); }, news);
}

bool Client::hear(Began /*began*/) {
    begins_ = {};
    if (std::exchange(began_, true)) {
        log_.warn("vrdma-directory has restarted; the known hosts are kept");
    }
    coming_.clear();
    gids_ = 0;
    tell_task_ = true;
    tell_gids_ = true;
    tell();
    return true;
}

bool Client::hear(const Said& said) {
    switch (said.level) {
        case Said::Level::debug:
            log_.debug("{}", said.text);
            break;
        case Said::Level::info:
            log_.info("{}", said.text);
            break;
        case Said::Level::warn:
            log_.warn("{}", said.text);
            break;
    }
    return true;
}

bool Client::hear(const Here& here) {
    forget(here.name);
    gids_ += here.entry.claims.size();
    if (coming_.size() == max_hosts || gids_ > max_gids_of_all) {
        return false;
    }
    const auto before = hosts_.find(here.name);
    coming_[here.name] = before != hosts_.end() && *before->second == here.entry
                             ? before->second
                             : std::make_shared<const Entry>(here.entry);
    return true;
}

bool Client::hear(const Gone& gone) {
    const bool known = coming_.contains(gone.name);
    forget(gone.name);
    return known;
}

bool Client::hear(Complete /*complete*/) {
    hosts_ = coming_;
    complete_ = true;
    on_hosts_(hosts_);
    return true;
}

void Client::forget(const std::string& name) {
    if (const auto found = coming_.find(name); found != coming_.end()) {
        gids_ -= found->second->claims.size();
        coming_.erase(found);
    }
}

// Only the last order of each kind matters. If the process does not read its socket, the timer
// tries again.
void Client::tell() {
    if (!began_ || !socket_) {
        return;
    }
    const bool told = tell(tell_task_, task_) &&
                      tell(tell_gids_, pack(Order{Addresses{here_}}).value()) &&
                      tell(tell_repeat_, pack(Order{Repeat{}}).value());
    again_ = told ? EventLoop::Timer{} : loop_.after(retry, [this] { tell(); });
}

bool Client::tell(bool& wanted, const Message& message) {
    if (wanted) {
        const ssize_t sent =
            ::send(socket_.get(), message.data(), message.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
        wanted = sent < 0 && (errno == EAGAIN || errno == ENOBUFS || errno == EINTR);
    }
    return !wanted;
}

void Client::end(const std::string& why) {
    log_.warn("the connection to vrdma-directory is lost; the known hosts are kept: {}", why);
    begins_ = {};
    messages_ = {};
    again_ = {};
    socket_ = {};
}

} // namespace vrdma::directory
