// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/management/worker.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <iterator>
#include <optional>
#include <utility>

#include "mediator/base/random.h"
#include "mediator/helper/socket.h"
#include "mediator/management/http_server.h"

namespace vrdma::management {
namespace {

struct Beginning {
    Task task;
    UniqueFd control; // listens
    UniqueFd network; // listens, or none
};

// The answer to a question, with the descriptor that comes with it. Answers to an earlier worker
// have other ids.
std::optional<helper::Received> ask(int socket, Question::Kind kind) {
    Question question{};
    question.kind = kind;
    question.id = random_u32();
    helper::send(socket, pack(question));
    while (auto received = helper::receive_with(socket, max_message)) {
        std::span<const std::byte> rest{received->message};
        const auto answer = helper::take<Answer>(rest);
        if (answer && answer->id == question.id) {
            received->message.erase(received->message.begin(),
                                    received->message.end() - std::ssize(rest));
            return received;
        }
    }
    return std::nullopt;
}

std::optional<Beginning> begin(int socket) {
    auto first = ask(socket, Question::Kind::task);
    auto second = first ? ask(socket, Question::Kind::network) : std::nullopt;
    if (!second || !first->descriptor) {
        return std::nullopt;
    }
    std::span<const std::byte> rest{first->message};
    const auto task = helper::take_last<Task>(rest);
    return task ? std::optional{Beginning{*task, std::move(first->descriptor),
                                          std::move(second->descriptor)}}
                : std::nullopt;
}

// The kernel knows who has connected.
std::optional<uid_t> user_of(const UniqueFd& connection) {
    ucred peer{};
    socklen_t size = sizeof(peer);
    return ::getsockopt(connection.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0
               ? std::optional{peer.uid}
               : std::nullopt;
}

class Worker {
  public:
    Worker(int socket, Beginning beginning)
        : socket_{socket},
          beginning_{std::move(beginning)},
          asker_{socket},
          http_{HttpServer::create([this](Request request, HttpServer::Client client) {
              request.may_change = client && may_change(*client);
              return client ? answer(request, asker_) : answer_network(std::move(request));
          })} {}

    bool run() {
        while (http_ && !asker_.ended()) {
            // vrdmad sends nothing without a question, so this is the end, or an answer that nobody
            // waits for any more. Clients beyond the limit wait in the sockets' queues.
            const bool room = http_->has_room();
            std::array<pollfd, 4> ready{{{socket_, POLLIN, 0},
                                         {http_->fd(), POLLIN, 0},
                                         {room ? beginning_.control.get() : -1, POLLIN, 0},
                                         {room ? beginning_.network.get() : -1, POLLIN, 0}}};
            const auto next = http_->next();
            constexpr int forever = -1;
            ::poll(ready.data(), ready.size(), next ? static_cast<int>(next->count()) : forever);
            if (ready[0].revents != 0 && !helper::receive(socket_, max_message)) {
                return true;
            }
            if (ready[2].revents != 0) {
                accept_user();
            }
            if (ready[3].revents != 0) {
                accept_network();
            }
            http_->run();
        }
        return http_ != nullptr;
    }

  private:
    bool may_change(uid_t user) const {
        return user == 0 || user == ::getuid() || beginning_.task.others_change != 0;
    }

    static UniqueFd accept(const UniqueFd& listening) {
        return UniqueFd{::accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
    }

    void accept_user() {
        UniqueFd connection = accept(beginning_.control);
        const auto user = user_of(connection);
        if (connection && user) {
            http_->add(std::move(connection), *user);
        }
    }

    void accept_network() {
        if (UniqueFd connection = accept(beginning_.network)) {
            http_->add(std::move(connection), std::nullopt);
        }
    }

    // A reading costs vrdmad time, so strangers cannot ask for another within a second after it,
    // whatever came of it. They get the same one.
    Response answer_network(Request request) {
        using Clock = std::chrono::steady_clock;
        request.by_network = true;
        const bool metrics = request.method == "GET" && request.path == metrics_path;
        if (!metrics) {
            return answer(request, asker_);
        }
        if (Clock::now() >= reading_ends_) {
            reading_ = answer(request, asker_);
            reading_ends_ = Clock::now() + std::chrono::seconds{1};
        }
        return reading_;
    }

    const int socket_;
    const Beginning beginning_;
    Asker asker_;
    Response reading_{};
    std::chrono::steady_clock::time_point reading_ends_{};
    const std::unique_ptr<HttpServer> http_;
};

} // namespace

bool work(int socket) {
    auto beginning = begin(socket);
    return !beginning || Worker{socket, std::move(*beginning)}.run();
}

} // namespace vrdma::management
