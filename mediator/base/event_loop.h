// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The control thread's loop: level-triggered epoll. Everything in the mediator except the pollers
// runs from here, so nothing here needs a lock; run() asserts the thread.
#pragma once

#include <sys/epoll.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <unordered_map>
#include <utility>

#include "mediator/base/result.h"
#include "mediator/base/unique_fd.h"

namespace vrdma {

class EventLoop {
  public:
    using Handler = std::function<void(std::uint32_t epoll_events)>;

    // Watches a descriptor for as long as it lives.
    class Watch {
      public:
        Watch() = default;
        Watch(Watch&& other) noexcept { *this = std::move(other); }
        Watch& operator=(Watch&& other) noexcept {
            std::swap(loop_, other.loop_);
            std::swap(fd_, other.fd_);
            std::swap(token_, other.token_);
            return *this;
        }
        Watch(const Watch&) = delete;
        Watch& operator=(const Watch&) = delete;
        ~Watch() {
            if (loop_ != nullptr) {
                loop_->remove(fd_, token_);
            }
        }

      private:
        friend class EventLoop;
        Watch(EventLoop* loop, int fd, std::uint64_t token) : loop_{loop}, fd_{fd}, token_{token} {}

        EventLoop* loop_ = nullptr;
        int fd_ = -1;
        std::uint64_t token_ = 0;
    };

    using Clock = std::chrono::steady_clock;
    using Due = std::pair<Clock::time_point, std::uint64_t>; // the token makes it unique

    // An action that runs once, unless the timer ends before.
    class Timer {
      public:
        Timer() = default;
        Timer(Timer&& other) noexcept { *this = std::move(other); }
        Timer& operator=(Timer&& other) noexcept {
            std::swap(loop_, other.loop_);
            std::swap(due_, other.due_);
            return *this;
        }
        Timer(const Timer&) = delete;
        Timer& operator=(const Timer&) = delete;
        ~Timer() {
            if (loop_ != nullptr) {
                loop_->timers_.erase(due_);
            }
        }

      private:
        friend class EventLoop;
        Timer(EventLoop* loop, Due due) : loop_{loop}, due_{due} {}

        EventLoop* loop_ = nullptr;
        Due due_{};
    };

    EventLoop();

    // The handler runs whenever fd is readable (or has another event that is asked for) or hung up.
    // It may end its own watch.
    Result<Watch> watch(int fd, Handler handler, std::uint32_t epoll_events = EPOLLIN);

    // A timer needs no descriptor, so it can be created when no descriptors are left. The action
    // may end its own timer.
    Timer after(std::chrono::milliseconds delay, std::function<void()> action);

    // Runs until a handler calls stop().
    Result<> run();
    void stop() noexcept { running_ = false; }

    // The thread of the loop has died, and this thread takes its place.
    void adopt() noexcept { thread_ = std::this_thread::get_id(); }

  private:
    void remove(int fd, std::uint64_t token) noexcept;
    int milliseconds_to_next() const;
    void run_due(Clock::time_point now);

    UniqueFd epoll_;
    std::unordered_map<std::uint64_t, std::shared_ptr<Handler>> handlers_;
    std::map<Due, std::function<void()>> timers_;
    std::uint64_t next_token_ = 1;
    bool running_ = false;
    std::thread::id thread_ = std::this_thread::get_id();
};

} // namespace vrdma
