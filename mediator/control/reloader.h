// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// vrdmad's end of the socket to the process that reads the configuration again. vrdmad does not
// trust that process: an invalid message ends the connection, and then changes take a restart. Runs
// on the control thread.
#pragma once

#include <deque>
#include <functional>
#include <memory>

#include "mediator/base/event_loop.h"
#include "mediator/base/unique_fd.h"
#include "mediator/control/reload.h"
#include "mediator/control/reload_message.h"
#include "mediator/management/mediator.h"

namespace vrdma::control {

class Reloader {
  public:
    static constexpr int turn = 64;              // messages, before others have their turn
    static constexpr std::size_t max_wait = 100; // keys and tables named as taking a restart
    static constexpr std::size_t max_asked = 64; // requests that are not answered yet

    using Done = std::function<void(const management::Reloaded& outcome)>;

    // Calls `on_changes` when the changes of an answer are in `running`, which must outlive this.
    static Result<std::unique_ptr<Reloader>> create(UniqueFd process, Running& running,
                                                    EventLoop& loop,
                                                    std::function<void()> on_changes);

    // Errors, and changes that take a restart, are logged. `done` hears of the outcome, too.
    void reload(Done done);

  private:
    Reloader(UniqueFd process, Running& running, std::function<void()> on_changes)
        : process_{std::move(process)}, running_{running}, on_changes_{std::move(on_changes)} {}

    void hear();
    bool hear(const ReloadMessage& message);
    bool hear_share(const ReloadMessage& message);
    bool hear_text(const ReloadMessage& message);
    void complete();
    void refuse(const std::string& why);
    void tell(const management::Reloaded& outcome);
    void end();

    UniqueFd process_; // none: the process has ended
    Running& running_;
    const std::function<void()> on_changes_;
    EventLoop::Watch messages_;
    Changes coming_;         // the part of an answer that has arrived
    std::deque<Done> asked_; // by requests that are not answered yet, in their order
};

} // namespace vrdma::control
