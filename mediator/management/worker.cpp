// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/management/worker.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <optional>
#include <utility>

#include "mediator/helper/socket.h"
#include "mediator/management/http_server.h"

namespace vrdma::management {
namespace {

struct Beginning {
    Task task;
    UniqueFd listening;
};

// Answers that were for an earlier worker have another size, or no descriptor.
std::optional<Beginning> ask_for_task(int socket) {
    Question question{};
    question.kind = Question::Kind::task;
    helper::send(socket, pack(question));
    while (auto received = helper::receive_with(socket, max_message)) {
        std::span<const std::byte> rest{received->message};
        const auto answer = helper::take<Answer>(rest);
        const auto task = helper::take_last<Task>(rest);
        if (answer && task && received->descriptor) {
            return Beginning{*task, std::move(received->descriptor)};
        }
    }
    return std::nullopt;
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
          task_{beginning.task},
          listening_{std::move(beginning.listening)},
          asker_{socket},
          http_{HttpServer::create([this](Request request, uid_t user) {
              request.may_change = may_change(user);
              return answer(request, asker_);
          })} {}

    bool run() {
        while (http_ && !asker_.ended()) {
            // vrdmad sends nothing without a question, so this is the end, or an answer that nobody
            // waits for any more. Clients beyond the limit wait in the socket's queue.
            std::array<pollfd, 3> ready{{{socket_, POLLIN, 0},
                                         {http_->fd(), POLLIN, 0},
                                         {http_->has_room() ? listening_.get() : -1, POLLIN, 0}}};
            const auto next = http_->next();
            constexpr int forever = -1;
            ::poll(ready.data(), ready.size(), next ? static_cast<int>(next->count()) : forever);
            if (ready[0].revents != 0 && !helper::receive(socket_, max_message)) {
                return true;
            }
            if (ready[2].revents != 0) {
                accept();
            }
            http_->run();
        }
        return http_ != nullptr;
    }

  private:
    bool may_change(uid_t user) const {
        return user == 0 || user == ::getuid() || task_.others_change != 0;
    }

    void accept() {
        UniqueFd connection{
            ::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
        const auto user = user_of(connection);
        if (connection && user) {
            http_->add(std::move(connection), *user);
        }
    }

    const int socket_;
    const Task task_;
    const UniqueFd listening_;
    Asker asker_;
    const std::unique_ptr<HttpServer> http_;
};

} // namespace

bool work(int socket) {
    auto beginning = ask_for_task(socket);
    return !beginning || Worker{socket, std::move(*beginning)}.run();
}

} // namespace vrdma::management
