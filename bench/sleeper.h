// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// What Linux takes to wake a thread.
#pragma once

#include <thread>

#include "bench/relay.h"

namespace vrdma::bench {

class EventFd {
  public:
    EventFd();
    EventFd(const EventFd&) = delete;
    EventFd& operator=(const EventFd&) = delete;
    ~EventFd();

    void signal() const;
    void await() const;

  private:
    int fd_;
};

// A thread that sleeps until it is asked, and answers in both ways. It may run on any core.
class Sleeper {
  public:
    static constexpr int ordinary = 0;
    static constexpr int as_poller = 1; // a real-time thread

    explicit Sleeper(int priority);
    Sleeper(const Sleeper&) = delete;
    Sleeper& operator=(const Sleeper&) = delete;
    ~Sleeper();

    void ask() { asked_.signal(); }
    void spin_for_answer(std::uint64_t number) const { line_.await(number); }
    void sleep_for_answer() const { answered_.await(); }

  private:
    void answer_all(int priority);

    Line line_;
    EventFd asked_;
    EventFd answered_;
    std::atomic<bool> stop_{false};
    std::thread thread_;
};

} // namespace vrdma::bench
