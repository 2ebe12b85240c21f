// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A poller: one thread and the engine that belongs to it.
#pragma once

#include <sys/types.h>

#include <thread>

#include "mediator/base/event_fd.h"
#include "mediator/hca/soft/poller/busy_time.h"
#include "mediator/hca/soft/poller/cpu_contention.h"
#include "mediator/hca/soft/poller/mailbox.h"
#include "mediator/hca/soft/poller/realtime_budget.h"
#include "mediator/hca/soft/poller/rounds.h"
#include "mediator/hca/soft/poller/spin_policy.h"
#include "mediator/memory/fault_times.h"

namespace vrdma::hca::soft {

class Poller {
  public:
    static Result<std::unique_ptr<Poller>> create(const Config& config);
    // Starts the poller's own thread. Without one, the thread that calls poll() is the poller.
    void start(unsigned index);
    void stop();
    Poller(const Poller&) = delete;
    Poller& operator=(const Poller&) = delete;
    ~Poller();

    // Wakes the poller whenever an eventfd is signalled, as long as this object lives. Nobody reads
    // the eventfd: another holder of it could make the read block.
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
        UniqueFd fd_; // a duplicate, so that one eventfd may be watched twice
    };
    Result<Watch> watch(int eventfd) const;

    // Control thread: executes call(engine) on the poller's thread and waits for it.
    template <typename Call>
    void run(Call&& call) {
        if (lent_) {
            engine_.scheduler().set_now(Clock::now());
        }
        if (lent_ || !thread_.joinable()) {
            call(engine_);
            return;
        }
        mailbox_.run([&] { call(engine_); }, [this] { wake(); });
    }

    // Control thread: the poller stands still from now on, and this thread executes calls itself,
    // until it gives the engine back. Two threads that share a processor would change places twice
    // for each call.
    void borrow();
    void give_back() noexcept;
    bool lent() const noexcept { return lent_; }

    // The control thread has died: see Pollers.
    void await_last_call() noexcept;

    // Control thread: since the start.
    struct Times {
        Clock::duration busy; // it had work
        Clock::duration cpu;  // it ran, which includes looking for work
    };
    Times times();

    // Executes one round on the caller's thread. Only without an own thread.
    bool poll() noexcept;

  private:
    Poller(const Config& config, UniqueFd epoll, EventFd wake_fd);

    void watch_faults();
    void loop() noexcept;
    void set_urgent(bool urgent) noexcept;
    // False if it did not sleep: there is work, or more to look at.
    bool sleep() noexcept;
    void stand_still() noexcept;
    // Waits, and accounts for the time, which it returns.
    template <typename Wait>
    Clock::duration rest(Wait&& wait) noexcept;
    void wake() const noexcept;

    // Each sender to this poller reads it, so its cache line has only what never changes.
    alignas(cache_line) std::atomic<bool> asleep_{false};
    UniqueFd epoll_; // edge-triggered: wake_ and the watched eventfds
    EventFd wake_;
    const int priority_;
    const std::function<void()> on_start_;
    Engine engine_;
    Rounds rounds_{engine_};
    Mailbox mailbox_;
    SpinPolicy policy_;
    CpuContention contention_;
    RealtimeBudget realtime_budget_;
    BusyTime busy_time_;
    FaultTimes fault_times_; // of its thread
    bool urgent_ = true;     // its thread is started so
    std::atomic<bool> stop_{false};
    std::atomic<bool> lent_{false}; // to the control thread
    std::thread thread_;            // last: it uses all others
};

} // namespace vrdma::hca::soft
