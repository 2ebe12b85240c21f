// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/wire/fabric/handshake_worker.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <variant>

#include "mediator/helper/socket.h"
#include "mediator/wire/fabric/handshake.h"
#include "mediator/wire/fabric/handshake_messages.h"

namespace vrdma::wire::fabric {
namespace {

using handshakes::Id;
using handshakes::Message;
using handshakes::News;
using handshakes::Order;

void tell(int socket, const News& news) {
    Message message = pack(news);
    helper::send(socket, message);
    ::explicit_bzero(message.data(), message.size()); // there may be secrets
}

// Messages before the task were for an earlier worker.
std::optional<handshakes::Task> receive_task(int socket) {
    tell(socket, handshakes::Began{});
    while (const auto message = helper::receive(socket, handshakes::max_message)) {
        const auto order = handshakes::read_order(*message);
        if (order && std::holds_alternative<handshakes::Task>(*order)) {
            return std::get<handshakes::Task>(*order);
        }
    }
    return std::nullopt;
}

class HandshakeMaker {
  public:
    HandshakeMaker(int socket, Credentials credentials, std::string host)
        : socket_{socket}, credentials_{std::move(credentials)}, host_{std::move(host)} {}

    // Runs until the socket ends. An invalid order is vrdmad's fault, and changes nothing.
    void run() {
        while (const auto message = helper::receive(socket_, handshakes::max_message)) {
            if (const auto order = handshakes::read_order(*message)) {
                std::visit([this](const auto& one) { obey(one); }, *order);
            }
        }
    }

  private:
    using All = std::map<Id, Handshake>;

    // Another task was for an earlier worker.
    void obey(const handshakes::Task& /*task*/) {}

    void obey(const handshakes::Begin& begin) {
        const auto [made, is_new] = all_.emplace(
            begin.id, begin.connects ? Handshake::connect(credentials_, host_, begin.peer)
                                     : Handshake::accept(credentials_, host_));
        if (is_new && begin.connects) {
            proceed(made, made->second.begin());
        }
    }
    void obey(const handshakes::Heard& heard) {
        if (const auto found = all_.find(heard.id); found != all_.end()) {
            proceed(found, found->second.receive(heard.bytes));
        }
    }
    void obey(const handshakes::Admit& admit) {
        if (const auto found = all_.find(admit.id); found != all_.end()) {
            proceed(found, found->second.admit(admit.admitted));
        }
    }
    void obey(const handshakes::Forget& forget) { all_.erase(forget.id); }

    // Reports the bytes to send to the other side, and then what comes next.
    void proceed(All::iterator at, std::span<const std::byte> says) {
        const Id id = at->first;
        while (!says.empty()) {
            const auto piece = says.first(std::min(says.size(), handshakes::Piece::most));
            tell(socket_, handshakes::Say{{id, {piece.begin(), piece.end()}}});
            says = says.subspan(piece.size());
        }
        const Handshake& handshake = at->second;
        switch (handshake.state()) {
            case Handshake::State::open:
                return tell(socket_, handshakes::Next{id});
            case Handshake::State::asks:
                return tell(socket_, handshakes::Asks{id, handshake.peer()});
            case Handshake::State::done:
                succeed(id, handshake);
                break;
            case Handshake::State::refused:
                tell(socket_, handshakes::Refused{id, handshake.peer(), handshake.why()});
                break;
        }
        all_.erase(at);
    }

    void succeed(Id id, const Handshake& handshake) const {
        if (const auto secrets = handshake.secrets()) {
            tell(socket_, handshakes::Done{id, handshake.peer(), *secrets});
        } else {
            tell(socket_, handshakes::Refused{id, handshake.peer(), "leaves us without secrets"});
        }
    }

    const int socket_;
    const Credentials credentials_;
    const std::string host_;
    All all_;
};

} // namespace

// vrdmad limits the number of handshakes. An error in the files may be corrected: the next worker
// tries.
bool make_handshakes(int socket) {
    const auto task = receive_task(socket);
    if (!task) {
        return true;
    }
    auto credentials = Credentials::load(task->files, task->host);
    if (!credentials) {
        tell(socket, handshakes::Wrong{credentials.error()});
        return false;
    }
    tell(socket, handshakes::Ready{});
    HandshakeMaker{socket, std::move(*credentials), task->host}.run();
    return true;
}

} // namespace vrdma::wire::fabric
