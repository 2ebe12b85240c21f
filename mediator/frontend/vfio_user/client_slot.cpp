// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/frontend/vfio_user/client_slot.h"

#include <sys/epoll.h>

#include "mediator/base/errno.h"
#include "mediator/device/out_of_memory.h"

namespace vrdma::vfio_user {
namespace {

// How much of the control thread's time a client gets before others have their turn.
constexpr int commands_per_turn = 16;
constexpr std::chrono::milliseconds turn_time{2};

} // namespace

bool ClientSlot::is_free() {
    if (client_) {
        on_client();
    } else if (!ready_) {
        make_ready();
    }
    return !client_ && ready_;
}

bool ClientSlot::is_used() {
    if (client_) {
        on_client();
    }
    return client_.has_value();
}

void ClientSlot::take(UniqueFd socket) {
    function_->expect();
    client_.emplace(Client{Channel{std::move(socket)}, Session{*function_, log_}, {}, false, {}});
    const auto taken = with_what_memory_there_is(
        [this] { return watch_client().map([this] { set_deadline(); }); });
    if (!taken) {
        drop(taken.error());
        return;
    }
    log_.info("a client connected");
}

Result<> ClientSlot::watch_client() {
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

// Drops a client if there is no memory for its message, and if its message is invalid.
void ClientSlot::on_client() {
    const auto served = with_what_memory_there_is([this]() -> Result<> {
        auto done = serve();
        if (done && client_->channel.blocked() != client_->awaits_room) {
            done = watch_client();
        }
        return done.map([this] { set_deadline(); });
    });
    if (!served) {
        drop(served.error());
    }
}

// Each message has its own deadline. Bytes that trickle in do not extend it.
void ClientSlot::set_deadline() {
    const bool waits = !client_->session.negotiated() || client_->channel.in_message();
    if (!waits) {
        client_->deadline.reset();
    } else if (!client_->deadline) {
        client_->deadline = loop_.after(timeout_, [this] { drop(std::errc::timed_out); });
    }
}

// A client that does not read its replies is not served until it does.
Result<> ClientSlot::serve() {
    if (const auto flushed = client_->channel.flush(); !flushed) {
        return flushed;
    }
    const auto end = EventLoop::Clock::now() + turn_time;
    for (int i = 0; i < commands_per_turn && EventLoop::Clock::now() < end; ++i) {
        if (client_->channel.blocked()) {
            break;
        }
        unanswered_ = true;
        auto message = client_->channel.receive();
        if (!message) {
            return fail(message.error());
        }
        if (!*message) {
            unanswered_ = false;
            break;
        }
        client_->deadline.reset();
        if (const auto executed = execute(std::move(**message)); !executed) {
            return executed;
        }
        unanswered_ = false;
    }
    return {};
}

Result<> ClientSlot::execute(Message message) {
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
    // A client that does not speak the protocol gets an error, and is dropped.
    return client_->session.negotiated() ? Result<>{} : fail(std::errc::protocol_not_supported);
}

// The log says so when nothing of the client is left here.
void ClientSlot::drop(std::errc why) {
    client_.reset();
    unanswered_ = false;
    if (!gone_) {
        make_ready();
    }
    log_.info("its client is gone: {}", describe(why));
    if (gone_) {
        gone_();
    }
}

void ClientSlot::keep() {
    if (client_) {
        function_->keep();
    }
}

// The connection ends before the driver is told: QEMU 11.1 aborts if its connection ends while a
// request of the driver is under way.
void ClientSlot::hang_up() {
    if (client_) {
        client_.reset();
        function_->announce_loss();
    }
}

void ClientSlot::hang_up_unanswered() {
    if (client_ && unanswered_) {
        function_->keep_still();
        hang_up();
    }
}

void ClientSlot::part(std::function<void()> gone) {
    gone_ = std::move(gone);
    awaits_ = client_ && function_->request();
    if (!awaits_) {
        hang_up();
    }
}

// May fail, and is tried again for a later client.
void ClientSlot::make_ready() {
    const auto ready = with_what_memory_there_is([this] { return function_->start_anew(); });
    if (!ready) {
        log_.warn("cannot accept a client now: {}", describe(ready.error()));
    }
    ready_ = ready.has_value();
}

} // namespace vrdma::vfio_user
