// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/frontend/vfio_user/seat.h"

#include <sys/epoll.h>

#include "mediator/base/errno.h"

namespace vrdma::vfio_user {
namespace {

// A client's share of the control thread before others get their turn.
constexpr int commands_per_turn = 16;

} // namespace

bool Seat::is_free() {
    if (client_) {
        on_client();
    }
    return !client_ && !worn_out_;
}

void Seat::take(UniqueFd socket) {
    client_.emplace(Client{Channel{std::move(socket)}, Session{*function_, log_}, {}, false});
    if (const auto watched = watch_client(); !watched) {
        drop(watched.error());
        return;
    }
    log_.info("a client connected");
}

Result<> Seat::watch_client() {
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

void Seat::on_client() {
    auto served = serve();
    if (served && client_->channel.blocked() != client_->awaits_room) {
        served = watch_client();
    }
    if (!served) {
        drop(served.error());
    }
}

// A client that does not take its replies is not served before it does.
Result<> Seat::serve() {
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

Result<> Seat::execute(Message message) {
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

void Seat::drop(std::errc why) {
    log_.info("its client is gone: {}", describe(why));
    client_.reset();
    if (const auto ready = function_->start_anew(); !ready) {
        log_.warn("takes no more clients: {}", describe(ready.error()));
        worn_out_ = true;
    }
}

} // namespace vrdma::vfio_user
