// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/base/event_loop.h"

#include <algorithm>
#include <array>
#include <cassert>

#include "mediator/base/errno.h"

namespace vrdma {

EventLoop::EventLoop() : epoll_{::epoll_create1(EPOLL_CLOEXEC)} {}

Result<EventLoop::Watch> EventLoop::watch(int fd, Handler handler, std::uint32_t epoll_events) {
    assert(std::this_thread::get_id() == thread_);
    const std::uint64_t token = next_token_++;
    epoll_event event{};
    event.events = epoll_events;
    event.data.u64 = token;
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
        return fail_errno();
    }
    handlers_.emplace(token, std::make_shared<Handler>(std::move(handler)));
    return Watch{this, fd, token};
}

void EventLoop::remove(int fd, std::uint64_t token) noexcept {
    assert(std::this_thread::get_id() == thread_);
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
    handlers_.erase(token);
}

EventLoop::Timer EventLoop::after(std::chrono::milliseconds delay, std::function<void()> action) {
    assert(std::this_thread::get_id() == thread_);
    const Due due{Clock::now() + delay, next_token_++};
    timers_.emplace(due, std::move(action));
    return Timer{this, due};
}

// The time to the next timer, rounded up, so that the timer is due when epoll_wait() returns. -1:
// there are no timers.
int EventLoop::milliseconds_to_next() const {
    if (timers_.empty()) {
        return -1;
    }
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(timers_.begin()->first.first - Clock::now());
    constexpr std::chrono::milliseconds::rep longest = 3'600'000;
    return static_cast<int>(std::clamp<decltype(left.count())>(left.count(), 0, longest));
}

// Runs the timers that were due before the handlers of this turn ran. So the handler of an event
// that came before a timer was due can still end the timer.
void EventLoop::run_due(Clock::time_point now) {
    while (running_ && !timers_.empty() && timers_.begin()->first.first <= now) {
        const auto timer = timers_.extract(timers_.begin());
        timer.mapped()();
    }
}

// Epoll returns ready descriptors in turns, so that one that is always ready delays the others by
// one handler's work at most. Tokens are never reused: if an earlier handler of the same batch
// ended a watch, an event of that watch finds no handler.
Result<> EventLoop::run() {
    assert(std::this_thread::get_id() == thread_);
    std::array<epoll_event, 64> events;
    running_ = true;
    while (running_) {
        const int ready =
            ::epoll_wait(epoll_.get(), events.data(), events.size(), milliseconds_to_next());
        if (ready < 0 && errno != EINTR) {
            return fail_errno();
        }
        const auto now = Clock::now();
        for (int i = 0; i < ready && running_; ++i) {
            const std::uint64_t token = events[i].data.u64; // epoll_event is packed
            const auto found = handlers_.find(token);
            if (found != handlers_.end()) {
                const auto handler = found->second; // lives on if the handler ends its watch
                (*handler)(events[i].events);
            }
        }
        run_due(now);
    }
    return {};
}

} // namespace vrdma
