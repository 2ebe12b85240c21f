// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/poller/poller.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <spdlog/spdlog.h>
#include <sys/epoll.h>

#include <array>
#include <cstring>
#include <optional>

#include "mediator/base/errno.h"
#include "mediator/memory/shared_words.h"

namespace vrdma::hca::soft {
namespace {

int set_realtime(std::thread::native_handle_type thread, int priority) noexcept {
    const sched_param parameters{priority};
    return ::pthread_setschedparam(thread, priority != 0 ? SCHED_FIFO : SCHED_OTHER, &parameters);
}

bool add_edge(int epoll, int fd) noexcept {
    epoll_event event{};
    event.events = EPOLLIN | EPOLLET;
    return ::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

std::optional<timespec> time_until(Clock::time_point limit) noexcept {
    if (limit == Clock::time_point::max()) {
        return std::nullopt;
    }
    const auto left = std::max(limit - Clock::now(), Clock::duration::zero());
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
    return timespec{seconds.count(), std::chrono::nanoseconds{left - seconds}.count()};
}

} // namespace

Result<std::unique_ptr<Poller>> Poller::create(const Config& config) {
    UniqueFd epoll{::epoll_create1(EPOLL_CLOEXEC)};
    auto wake = EventFd::create();
    if (!epoll || !wake || !add_edge(epoll.get(), wake->fd())) {
        return fail_errno();
    }
    return std::unique_ptr<Poller>{new Poller{config, std::move(epoll), std::move(*wake)}};
}

Poller::Watch::~Watch() {
    if (fd_) {
        ::epoll_ctl(epoll_, EPOLL_CTL_DEL, fd_.get(), nullptr);
    }
}

Result<Poller::Watch> Poller::watch(int eventfd) const {
    UniqueFd fd{::fcntl(eventfd, F_DUPFD_CLOEXEC, 0)};
    if (!fd || !add_edge(epoll_.get(), fd.get())) {
        return fail_errno();
    }
    return Watch{epoll_.get(), std::move(fd)};
}

void Poller::start(unsigned index) {
    busy_time_.starts(Clock::now());
    thread_ = std::thread{[this, index] {
        ::pthread_setname_np(::pthread_self(), fmt::format("vrdma-poll-{}", index).c_str());
        watch_faults();
        if (on_start_) {
            on_start_();
        }
        loop();
    }};
    if (const int error = set_realtime(thread_.native_handle(), priority_)) {
        spdlog::warn("pollers run without real-time priority: {}", std::strerror(error));
    }
}

// If the kernel does not allow it, the poller works without.
void Poller::watch_faults() {
    fault_times_ = FaultTimes::of_this_thread().value_or(FaultTimes{});
}

Poller::Poller(const Config& config, UniqueFd epoll, EventFd wake_fd)
    : epoll_{std::move(epoll)},
      wake_{std::move(wake_fd)},
      priority_{config.realtime_priority},
      on_start_{config.on_start},
      engine_{config, [this] { wake(); }},
      policy_{config.poll} {}

Poller::~Poller() {
    stop();
}

void Poller::stop() {
    if (thread_.joinable()) {
        run([this](Engine&) { stop_.store(true, std::memory_order_relaxed); });
        give_back();
        thread_.join();
    }
}

void Poller::borrow() {
    if (thread_.joinable()) {
        run([this](Engine&) { lent_ = true; });
    }
}

void Poller::give_back() noexcept {
    lent_ = false;
    lent_.notify_one();
}

void Poller::stand_still() noexcept {
    if (lent_) {
        rest([this] { lent_.wait(true); });
    }
}

// The kernel does not tell how long a thread of another process has run, so the poller is asked.
Poller::Times Poller::times() {
    if (!thread_.joinable() || lent_) {
        return {};
    }
    timespec ran{};
    run([&](Engine&) { ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ran); });
    return {busy_time_.until(Clock::now()),
            std::chrono::seconds{ran.tv_sec} + std::chrono::nanoseconds{ran.tv_nsec}};
}

// The dead thread may have left its call before it woke the poller.
void Poller::await_last_call() noexcept {
    constexpr std::chrono::microseconds pause{20};
    while (thread_.joinable() && mailbox_.pending()) {
        wake();
        std::this_thread::sleep_for(pause);
    }
}

bool Poller::poll() noexcept {
    assert(!thread_.joinable());
    return rounds_.round();
}

void Poller::wake() const noexcept {
    full_fence();
    if (asleep_.load(std::memory_order_relaxed)) {
        wake_.signal();
    }
}

// Makes at most four system calls per second.
void Poller::set_urgent(bool urgent) noexcept {
    if (urgent != urgent_ && priority_ != 0) {
        set_realtime(::pthread_self(), urgent ? priority_ : 0);
    }
    urgent_ = urgent;
}

void Poller::loop() noexcept {
    Clock::time_point last_work = Clock::now();
    Clock::time_point last_look = last_work;
    constexpr unsigned rounds_per_judgement = 1024;
    realtime_budget_.starts(last_work);
    for (unsigned idle = 0, rounds = 0; !stop_.load(std::memory_order_relaxed);) {
        bool worked = rounds_.round();
        fault_times_.settle(); // before a device whose memory was touched is destroyed
        if (++rounds % rounds_per_judgement == 0) {
            set_urgent(realtime_budget_.running(engine_.now()));
        }
        if (mailbox_.pending()) {
            mailbox_.serve();
            stand_still();
            worked = true;
        }
        if (worked) {
            rounds_.stay_awake();
            idle = 0;
            continue;
        }
        const unsigned rounds_per_look = policy_.rounds_per_look(contention_.crowded());
        if (++idle % rounds_per_look != 0) {
            continue;
        }
        const Clock::time_point now = Clock::now();
        if (idle == rounds_per_look) {
            last_work = now;
        } else {
            busy_time_.was_idle(now - last_look);
        }
        last_look = now;
        const bool crowded = policy_.depends_on_crowd() && contention_.look(now);
        if (now - last_work >= policy_.budget(crowded)) {
            const bool slept = sleep();
            idle = rounds_.falls_asleep() && !slept ? idle : 0;
        }
    }
}

template <typename Wait>
Clock::duration Poller::rest(Wait&& wait) noexcept {
    const Clock::time_point before = Clock::now();
    busy_time_.falls_asleep(before);
    set_urgent(realtime_budget_.stops(before));
    wait();
    const Clock::time_point after = Clock::now();
    busy_time_.wakes(after);
    realtime_budget_.starts(after);
    return after - before;
}

bool Poller::sleep() noexcept {
    if (!rounds_.prepare_sleep()) {
        return false;
    }
    asleep_.store(true, std::memory_order_relaxed);
    full_fence();
    const auto slept = rest([this] {
        if (!mailbox_.pending() && !engine_.cross_queue().pending()) {
            std::array<epoll_event, 16> edges;
            const auto timeout = time_until(rounds_.sleep_limit());
            ::epoll_pwait2(epoll_.get(), edges.data(), edges.size(), timeout ? &*timeout : nullptr,
                           nullptr);
        }
    });
    asleep_.store(false, std::memory_order_relaxed);
    policy_.slept(slept);
    rounds_.wake();
    return true;
}

} // namespace vrdma::hca::soft
