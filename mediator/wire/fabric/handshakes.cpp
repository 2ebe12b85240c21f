// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/wire/fabric/handshakes.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <utility>
#include <variant>

#include "mediator/base/errno.h"

namespace vrdma::wire::fabric {

using handshakes::Order;

tl::expected<std::unique_ptr<Handshakes>, Handshakes::Error> Handshakes::open(
    const std::string& name, UniqueFd socket, const handshakes::Task& task, EventLoop& loop,
    std::chrono::milliseconds limit) {
    auto message = pack(Order{task});
    if (!message) {
        return tl::unexpected{std::string{"the path of a certificate or key is too long"}};
    }
    std::unique_ptr<Handshakes> made{
        new Handshakes{name, std::move(socket), std::move(*message), loop}};
    if (const auto ready = made->await_ready(limit); !ready) {
        return tl::unexpected{ready.error()};
    }
    auto messages =
        loop.watch(made->socket_.get(), [all = made.get()](std::uint32_t) { all->hear_all(); });
    if (!messages) {
        return tl::unexpected{describe(messages.error())};
    }
    made->messages_ = std::move(*messages);
    return made;
}

Handshakes::Handshakes(const std::string& name, UniqueFd socket, handshakes::Message task,
                       EventLoop& loop)
    : log_{name}, socket_{std::move(socket)}, task_{std::move(task)}, loop_{loop} {}

tl::expected<void, Handshakes::Error> Handshakes::await_ready(std::chrono::milliseconds limit) {
    const auto end = EventLoop::Clock::now() + limit;
    while (!ready_ && wrong_.empty() && socket_) {
        const auto left =
            std::chrono::ceil<std::chrono::milliseconds>(end - EventLoop::Clock::now());
        pollfd news{socket_.get(), POLLIN, 0};
        if (left.count() <= 0 || ::poll(&news, 1, static_cast<int>(left.count())) == 0) {
            return tl::unexpected{std::string{"vrdma-handshake does not answer"}};
        }
        hear_next();
    }
    if (!wrong_.empty()) {
        return tl::unexpected{wrong_};
    }
    if (!socket_) {
        return tl::unexpected{std::string{"vrdma-handshake does not work"}};
    }
    return {};
}

std::optional<Handshakes::Id> Handshakes::begin(bool connects, const std::string& peer) {
    if (!ready_ || !socket_ || open_.size() == max_open) {
        return std::nullopt;
    }
    const Id id = next_id_++;
    open_[id] = {connects, connects, false, false, peer};
    if (!tell(id, handshakes::Begin{id, connects, peer})) {
        forget(id);
        return std::nullopt;
    }
    return id;
}

bool Handshakes::hear(Id id, std::span<const std::byte> message) {
    const auto found = open_.find(id);
    if (found == open_.end() || found->second.process_has_turn) {
        return false;
    }
    found->second.process_has_turn = true;
    return tell(id, handshakes::Heard{{id, {message.begin(), message.end()}}});
}

// Orders that the process has not been sent yet are dropped. If it knows the handshake, it is told
// to forget it.
void Handshakes::forget(Id id) {
    const auto found = open_.find(id);
    if (found == open_.end()) {
        return;
    }
    const bool told = found->second.told;
    open_.erase(found);
    std::erase_if(waiting_, [&](const Waiting& waiting) {
        waiting_bytes_ -= waiting.id == id ? waiting.message.size() : 0;
        return waiting.id == id;
    });
    if (told) {
        enqueue(0, pack(Order{handshakes::Forget{id}}).value());
        send_waiting();
    }
}

void Handshakes::hear_all() {
    for (int i = 0; i < turn && hear_next(); ++i) {
    }
    send_waiting();
}

// Returns whether there may be another message.
bool Handshakes::hear_next() {
    std::array<std::byte, handshakes::max_message> message; // NOLINT(*-member-init): recv() does
    const ssize_t size =
        ::recv(socket_.get(), message.data(), message.size(), MSG_DONTWAIT | MSG_TRUNC);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) {
        return false;
    }
    if (size <= 0) {
        end("it has ended");
        return false;
    }
    const auto length = static_cast<std::size_t>(size);
    const bool sense = length <= message.size() && make_sense(std::span{message}.first(length));
    ::explicit_bzero(message.data(), std::min(length, message.size())); // there may be secrets
    if (!sense) {
        end("it sent an invalid message");
    }
    return sense;
}

bool Handshakes::make_sense(std::span<const std::byte> message) {
    const auto news = handshakes::read_news(message);
    return news && std::visit([this](const auto& one) { return take(one); }, *news);
}

bool Handshakes::take(const handshakes::Began& /*began*/) {
    began_ = true;
    ready_ = false;
    waiting_.clear();
    waiting_bytes_ = 0;
    lose_all();
    enqueue(0, task_);
    send_waiting();
    return true;
}

bool Handshakes::take(const handshakes::Ready& /*ready*/) {
    if (!began_ || ready_) {
        return false;
    }
    if (std::exchange(was_ready_, true)) {
        log_.warn("vrdma-handshake has restarted");
    }
    ready_ = true;
    wrong_.clear();
    return true;
}

// A worker tries again each second: an error that remains is not logged again.
bool Handshakes::take(const handshakes::Wrong& wrong) {
    if (!began_ || ready_) {
        return false;
    }
    if (was_ready_ && wrong_ != wrong.text) {
        log_.warn("no connection can be made: {}", wrong.text);
    }
    wrong_ = wrong.text;
    return true;
}

// A message about a handshake that is not open any more is ignored: the process sent it before it
// was told to forget that handshake.
template <typename Call>
bool Handshakes::with_open(Id id, Call&& call) {
    if (!ready_ || id >= next_id_) {
        return false;
    }
    const auto found = open_.find(id);
    return found == open_.end() || (found->second.process_has_turn && call(found->second));
}

bool Handshakes::take(const handshakes::Say& say) {
    return with_open(say.id, [&](const Open& /*open*/) {
        owner_->say(say.id, say.bytes);
        return true;
    });
}

bool Handshakes::take(const handshakes::Next& next) {
    return with_open(next.id, [&](Open& open) {
        open.process_has_turn = false;
        owner_->next(next.id);
        return true;
    });
}

bool Handshakes::take(const handshakes::Asks& asks) {
    return with_open(asks.id, [&](Open& open) {
        if (open.connects || std::exchange(open.asked, true)) {
            return false;
        }
        const bool admitted = owner_->admits(asks.id, asks.name);
        open.peer = admitted ? asks.name : std::string{};
        if (!tell(asks.id, handshakes::Admit{asks.id, admitted})) {
            forget(asks.id);
            owner_->lost(asks.id);
        }
        return true;
    });
}

// A peer that connects to us has been admitted by that name, and by no other.
bool Handshakes::take(const handshakes::Done& done) {
    return with_open(done.id, [&](const Open& open) {
        if (open.peer != done.name) {
            return false;
        }
        open_.erase(done.id);
        owner_->done(done.id, done.name, done.secrets);
        return true;
    });
}

bool Handshakes::take(const handshakes::Refused& refused) {
    return with_open(refused.id, [&](const Open& open) {
        if (open.connects && open.peer != refused.name) {
            return false;
        }
        open_.erase(refused.id);
        owner_->refused(refused.id, refused.name, refused.why);
        return true;
    });
}

// Returns whether there is room for the order.
bool Handshakes::tell(Id id, const Order& order) {
    auto message = pack(order);
    if (!message || waiting_bytes_ + message->size() > max_waiting) {
        return false;
    }
    enqueue(id, std::move(*message));
    send_waiting();
    return true;
}

void Handshakes::enqueue(Id id, handshakes::Message message) {
    waiting_bytes_ += message.size();
    waiting_.push_back({id, std::move(message)});
}

// Messages for which the socket has no room wait. If the process is gone, our end of the socket
// tells.
void Handshakes::send_waiting() {
    while (!waiting_.empty()) {
        const auto& [id, message] = waiting_.front();
        const ssize_t sent =
            ::send(socket_.get(), message.data(), message.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && (errno == EAGAIN || errno == ENOBUFS || errno == EINTR)) {
            again_ = loop_.after(retry, [this] { send_waiting(); });
            return;
        }
        if (const auto found = open_.find(id); found != open_.end()) {
            found->second.told = true;
        }
        waiting_bytes_ -= message.size();
        waiting_.pop_front();
    }
    again_ = {};
}

void Handshakes::lose_all() {
    for (const auto& [id, open] : std::exchange(open_, {})) {
        owner_->lost(id);
    }
}

void Handshakes::end(const std::string& why) {
    log_.warn("no new connections are made: the connection to vrdma-handshake is lost: {}", why);
    messages_ = {};
    again_ = {};
    socket_ = {};
    ready_ = false;
    waiting_.clear();
    waiting_bytes_ = 0;
    lose_all();
}

} // namespace vrdma::wire::fabric
