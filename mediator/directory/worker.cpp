// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/directory/worker.h"

#include <poll.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include <array>
#include <mutex>

#include "mediator/directory/entry_json.h"
#include "mediator/directory/messages.h"
#include "mediator/directory/registration.h"
#include "mediator/directory/roster.h"
#include "mediator/helper/socket.h"

namespace vrdma::directory {
namespace {

void send(int socket, const News& news) {
    helper::send(socket, pack(news));
}

// Sends lines of the log to vrdmad, which knows where the log goes.
class Lines : public spdlog::sinks::base_sink<std::mutex> {
  public:
    explicit Lines(int socket) : socket_{socket} {}

  protected:
    void sink_it_(const spdlog::details::log_msg& line) override {
        std::string text{line.payload.data(), line.payload.size()};
        send(socket_,
             Said{level_of(line.level), helper::printable(std::move(text), Said::max_size)});
    }
    void flush_() override {}

  private:
    static Said::Level level_of(spdlog::level::level_enum level) {
        if (level >= spdlog::level::warn) {
            return Said::Level::warn;
        }
        return level == spdlog::level::info ? Said::Level::info : Said::Level::debug;
    }

    const int socket_;
};

struct Beginning {
    Task task;
    Addresses addresses;
};

// Messages before the task were for an earlier worker. The addresses come after the task. The
// worker waits for them, because an entry without them would take them from this host for a moment.
std::optional<Beginning> receive_beginning(int socket) {
    send(socket, Began{});
    std::optional<Task> task;
    while (const auto message = helper::receive(socket, max_message)) {
        auto order = read_order(*message);
        if (order && std::holds_alternative<Task>(*order)) {
            task = std::get<Task>(std::move(*order));
        } else if (order && task && std::holds_alternative<Addresses>(*order)) {
            return Beginning{std::move(*task), std::get<Addresses>(std::move(*order))};
        }
    }
    return std::nullopt;
}

class Worker {
  public:
    Worker(int socket, const Task& task, std::set<Gid> gids, std::unique_ptr<Roster> roster)
        : socket_{socket},
          registration_{{log_name, task.etcd, key_prefix(task.prefix) + task.host, task.address,
                         std::move(gids)}},
          roster_{std::move(roster)} {}

    static constexpr char log_name[] = "directory";

    // Runs until the socket ends.
    void run() {
        std::array<pollfd, 2> ready{{{socket_, POLLIN, 0}, {roster_->fd(), POLLIN, 0}}};
        for (;;) {
            if (::poll(ready.data(), ready.size(), -1) < 0) {
                continue;
            }
            if (ready[0].revents != 0) {
                const auto message = helper::receive(socket_, max_message);
                if (!message) {
                    return;
                }
                obey(*message);
            }
            if (ready[1].revents != 0) {
                tell(roster_->take());
            }
        }
    }

  private:
    void obey(const Message& message) {
        const auto order = read_order(message);
        if (order && std::holds_alternative<Addresses>(*order)) {
            registration_.set(std::get<Addresses>(*order).gids);
        } else if (order && std::holds_alternative<Repeat>(*order)) {
            registration_.repeat();
        }
    }

    // Reports hosts that have gone first, which makes room for new ones.
    void tell(Hosts hosts) {
        for (const auto& [name, entry] : told_) {
            if (!hosts.contains(name)) {
                send(socket_, Gone{name});
            }
        }
        // Hosts that have fewer addresses now make room, too.
        for (const bool smaller : {true, false}) {
            for (const auto& [name, entry] : hosts) {
                const auto told = told_.find(name);
                const std::size_t before = told != told_.end() ? told->second->claims.size() : 0;
                const bool same = told != told_.end() && told->second == entry;
                if (!same && (entry->claims.size() < before) == smaller) {
                    send(socket_, Here{name, *entry});
                }
            }
        }
        send(socket_, Complete{});
        told_ = std::move(hosts);
    }

    const int socket_;
    Hosts told_;
    Registration registration_;
    const std::unique_ptr<Roster> roster_;
};

} // namespace

bool work(int socket) {
    auto lines = std::make_shared<Lines>(socket);
    auto logger = std::make_shared<spdlog::logger>("vrdma-directory", std::move(lines));
    logger->set_level(spdlog::level::debug);
    spdlog::set_default_logger(std::move(logger));

    auto beginning = receive_beginning(socket);
    if (!beginning) {
        return true;
    }
    const Task& task = beginning->task;
    auto roster = Roster::create({Worker::log_name, task.etcd, task.prefix});
    if (!roster) {
        return false;
    }
    Worker{socket, task, std::move(beginning->addresses.gids), std::move(*roster)}.run();
    return true;
}

} // namespace vrdma::directory
