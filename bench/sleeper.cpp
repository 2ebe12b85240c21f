// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "bench/sleeper.h"

#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>

#include "bench/cores.h"
#include "bench/verbs.h"

namespace vrdma::bench {

EventFd::EventFd() : fd_{::eventfd(0, EFD_CLOEXEC)} {
    check(fd_ < 0 ? errno : 0, "eventfd");
}

EventFd::~EventFd() {
    ::close(fd_);
}

void EventFd::signal() const {
    check(::eventfd_write(fd_, 1) != 0 ? errno : 0, "eventfd_write");
}

void EventFd::await() const {
    eventfd_t value = 0;
    check(::eventfd_read(fd_, &value) != 0 ? errno : 0, "eventfd_read");
}

Sleeper::Sleeper(int priority) {
    thread_ = std::thread{[this, priority] { answer_all(priority); }};
}

void Sleeper::answer_all(int priority) {
    pin_to_any_core();
    if (priority != ordinary) {
        const sched_param parameters{priority};
        ::pthread_setschedparam(::pthread_self(), SCHED_FIFO, &parameters);
    }
    for (std::uint64_t answers = 1;; ++answers) {
        asked_.await();
        if (stop_.load(std::memory_order_relaxed)) {
            return;
        }
        line_.put(answers);
        answered_.signal();
    }
}

Sleeper::~Sleeper() {
    stop_.store(true);
    asked_.signal();
    thread_.join();
}

} // namespace vrdma::bench
