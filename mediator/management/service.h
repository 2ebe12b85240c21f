// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// vrdmad's end of the socket to the process that serves its control socket. That process is not
// trusted: a message that makes no sense ends the connection, and then nothing can be asked any
// more. Runs on the control thread, which never waits for the process.
#pragma once

#include <memory>

#include "mediator/base/event_loop.h"
#include "mediator/base/log.h"
#include "mediator/base/unique_fd.h"
#include "mediator/management/messages.h"

namespace vrdma::management {

class Service {
  public:
    static constexpr int turn = 4; // questions, before others have their turn

    // Sockets that the process serves.
    struct Listening {
        int control;
        int network = -1; // for metrics, or none
    };

    // The listening sockets stay open. If the process ends, nobody can connect any more. The
    // mediator must outlive this, but it may answer a question later.
    static Result<std::unique_ptr<Service>> open(UniqueFd process, const Listening& listening,
                                                 const Task& task, Mediator& mediator,
                                                 EventLoop& loop);
    Service(const Service&) = delete;
    Service& operator=(const Service&) = delete;
    ~Service() = default;

  private:
    Service(UniqueFd process, const Listening& listening, const Task& task, Mediator& mediator)
        : process_{std::make_shared<Process>(std::move(process))},
          listening_{listening},
          task_{task},
          mediator_{mediator} {}

    void hear();
    void answer(const Asked& asked);
    void give_task(const Question& question);
    void give_network(const Question& question);
    void give(const Message& message, int descriptor);
    template <typename Record>
    void answer(const Question& question,
                std::vector<Record> (Mediator::*ask)(const Range& range) const, std::size_t most);
    void set_log_level(const Question& question);
    void answer(const Question& question, const Answered<>& done);
    void answer(const Question& question, const Answered<std::string>& line);
    void start_sniffer(const Question& question);
    void reload(const Question& question);
    void end(const char* why);

    struct Process {
        explicit Process(UniqueFd connection) : socket{std::move(connection)} {}
        UniqueFd socket;
        bool reloads = false; // the configuration is being read again for it
    };

    // None: the connection has ended. An answer that comes later finds out whether it has.
    std::shared_ptr<Process> process_;
    const Listening listening_;
    const Task task_;
    Mediator& mediator_;
    DeviceLog log_{"control socket"};
    EventLoop::Watch questions_;
};

} // namespace vrdma::management
