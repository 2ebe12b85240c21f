// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A second process of vrdmad, which shares its memory and its descriptors (clone(2)). The pollers'
// threads belong to it. So a signal that kills the control thread does not reach the pollers, and
// the state of all devices outlives it. The engine process then does what vrdmad does at its end:
// it hands the devices over.
//
// If the engine process dies, nobody can tell what its pollers have done last. Then vrdmad ends,
// too, as if they were threads of its own.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>

#include "mediator/base/event_fd.h"
#include "mediator/base/sanitized.h"

namespace vrdma::control {

class EngineProcess {
  public:
    using Call = std::function<void()>;

    // A sanitizer knows the threads of one process, and would take all that a dead thread has
    // written for races.
    static constexpr bool possible = !sanitized;

    // `limit`: the heir does not take longer. The caller has blocked the signals that are not to
    // end either process.
    static Result<std::unique_ptr<EngineProcess>> start(std::chrono::milliseconds limit);
    EngineProcess(const EngineProcess&) = delete;
    EngineProcess& operator=(const EngineProcess&) = delete;
    // Its threads must have ended.
    ~EngineProcess();

    pid_t id() const noexcept { return id_; }

    // Executes the call there. Threads that the call starts belong to the engine process.
    void run(const Call& call);

    // From now on, `heir` is called if this process dies, on a thread of the engine process, which
    // then ends. Without an heir, the engine process only ends.
    void bequeath(Call heir);
    void disinherit() noexcept;

    // From now on, `on_death` is called if the engine process dies, on a thread of its own.
    void watch(Call on_death);

  private:
    EngineProcess(EventFd wake, EventFd watcher_wake, UniqueFd vrdmad,
                  std::chrono::milliseconds limit);

    Result<> be_born();
    static void* lend_thread(void* self);
    static int begin(void* self);
    [[noreturn]] void live() noexcept;
    void serve();
    [[noreturn]] void inherit() noexcept;

    EventFd wake_;
    EventFd watcher_wake_;
    UniqueFd vrdmad_; // pidfds
    UniqueFd engine_;
    int engine_fd_ = -1; // as the kernel gives it to the newborn
    const std::chrono::milliseconds limit_;
    pid_t id_ = -1;
    std::atomic<int> born_{0}; // 1, or a negative errno
    std::atomic<const Call*> call_{nullptr};
    std::atomic<bool> ends_{false};
    std::atomic<bool> inherits_{false};
    Call heir_;
    std::thread watcher_;
};

} // namespace vrdma::control
