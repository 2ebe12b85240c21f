// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A poller: one thread and the engine that belongs to it.
#pragma once

#include <sys/types.h>

#include <thread>

#include "mediator/base/event_fd.h"
#include "mediator/hca/soft/crowding.h"
#include "mediator/hca/soft/engine.h"
#include "mediator/hca/soft/mailbox.h"
#include "mediator/hca/soft/spin_policy.h"
#include "mediator/hca/soft/urgency.h"
#include "mediator/memory/fault_times.h"

namespace vrdma::hca::soft {

class Poller {
  public:
    static Result<std::unique_ptr<Poller>> create(const Config& config);
    // From now on a thread of its own is the poller, else whoever calls poll().
    void start(unsigned index);
    void stop();
    Poller(const Poller&) = delete;
    Poller& operator=(const Poller&) = delete;
    ~Poller();

    // Wakes the poller when an eventfd is signalled, for as long as it lives. Nobody reads the
    // eventfd: whoever else has it could make that block.
    class Watch {
      public:
        Watch() = default;
        Watch(Watch&& other) noexcept { *this = std::move(other); }
        Watch& operator=(Watch&& other) noexcept {
            std::swap(epoll_, other.epoll_);
            std::swap(fd_, other.fd_);
            return *this;
        }
        Watch(const Watch&) = delete;
        Watch& operator=(const Watch&) = delete;
        ~Watch();

      private:
        friend class Poller;
        Watch(int epoll, UniqueFd fd) : epoll_{epoll}, fd_{std::move(fd)} {}

        int epoll_ = -1;
        UniqueFd fd_; // ours, so that one eventfd may be watched twice
    };
    Result<Watch> watch(int eventfd) const;

    // Control thread: executes call(engine) on the poller's thread and waits for it.
    template <typename Call>
    void run(Call&& call) {
        if (!thread_.joinable()) {
            call(engine_);
            return;
        }
        mailbox_.run([&] { call(engine_); }, [this] { wake(); });
    }

    // One round by the caller; only without a thread.
    bool poll() noexcept;

  private:
    Poller(const Config& config, UniqueFd epoll, EventFd wake_fd);

    void watch_faults();
    void loop() noexcept;
    void set_urgent(bool urgent) noexcept;
    void sleep() noexcept;
    void wake() const noexcept;

    // Read by whoever sends here: on a line with what never changes.
    alignas(cache_line) std::atomic<bool> asleep_{false};
    UniqueFd epoll_; // edge-triggered: wake_, and what is watched
    EventFd wake_;
    Engine engine_;
    Mailbox mailbox_;
    SpinPolicy policy_;
    Crowding crowding_;
    Urgency urgency_;
    FaultTimes fault_times_; // of its thread
    const int priority_;
    const std::function<void()> on_start_;
    bool urgent_ = true; // as it is started
    std::atomic<bool> stop_{false};
    std::thread thread_; // last: it uses all others
};

} // namespace vrdma::hca::soft
