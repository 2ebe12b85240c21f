// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/control/engine_process.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <utility>

namespace vrdma::control {
namespace {

constexpr std::size_t stack_size = std::size_t{256} << 10;

bool ends(const UniqueFd& process, const EventFd& other) {
    std::array<pollfd, 2> fds{{{process.get(), POLLIN, 0}, {other.fd(), POLLIN, 0}}};
    while (::poll(fds.data(), fds.size(), -1) < 0 && errno == EINTR) {
    }
    return (fds[0].revents & POLLIN) != 0 && fds[1].revents == 0;
}

// Ends the process at once: what runs at the end of a program belongs to vrdmad.
[[noreturn]] void leave(int status) noexcept {
    for (;;) {
        ::syscall(SYS_exit_group, status);
    }
}

} // namespace

EngineProcess::EngineProcess(EventFd wake, EventFd watcher_wake, UniqueFd vrdmad,
                             std::chrono::milliseconds limit)
    : wake_{std::move(wake)},
      watcher_wake_{std::move(watcher_wake)},
      vrdmad_{std::move(vrdmad)},
      limit_{limit} {}

Result<std::unique_ptr<EngineProcess>> EngineProcess::start(std::chrono::milliseconds limit) {
    auto wake = EventFd::create();
    auto watcher_wake = EventFd::create();
    UniqueFd vrdmad{static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0))};
    if (!wake || !watcher_wake || !vrdmad) {
        return fail_errno();
    }
    std::unique_ptr<EngineProcess> process{
        new EngineProcess{std::move(*wake), std::move(*watcher_wake), std::move(vrdmad), limit}};
    if (const auto born = process->be_born(); !born) {
        return fail(born.error());
    }
    return process;
}

// libc gives a thread its thread-local storage, and a process of clone(2) has that of the thread
// which made it. So a thread is made only to lend its storage, which libc never frees.
Result<> EngineProcess::be_born() {
    pthread_attr_t detached;
    ::pthread_attr_init(&detached);
    ::pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    pthread_t lender{};
    const int error = ::pthread_create(&lender, &detached, &lend_thread, this);
    ::pthread_attr_destroy(&detached);
    if (error != 0) {
        return fail(static_cast<std::errc>(error));
    }
    born_.wait(0);
    return born_ > 0 ? Result<>{} : fail(static_cast<std::errc>(-born_.load()));
}

// The thread ends without libc, because the engine process has its storage. Its own stack has room
// for that of the engine process.
void* EngineProcess::lend_thread(void* self) {
    auto& process = *static_cast<EngineProcess*>(self);
    alignas(64) std::array<std::byte, stack_size> stack;
    constexpr int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_PIDFD | SIGCHLD;
    if (::clone(&begin, stack.data() + stack.size(), flags, self, &process.engine_fd_) < 0) {
        process.born_ = -errno;
        process.born_.notify_one();
        return nullptr;
    }
    for (;;) {
        ::syscall(SYS_exit, 0);
    }
}

int EngineProcess::begin(void* self) {
    static_cast<EngineProcess*>(self)->live();
}

void EngineProcess::live() noexcept {
    (void)::prctl(PR_SET_NAME, "vrdmad-engine");
    id_ = static_cast<pid_t>(::syscall(SYS_getpid));
    engine_ = UniqueFd{engine_fd_};
    born_ = 1;
    born_.notify_one();
    while (!ends(vrdmad_, wake_)) {
        wake_.drain();
        serve();
        if (ends_) {
            leave(EXIT_SUCCESS);
        }
    }
    inherit();
}

void EngineProcess::serve() {
    if (const Call* const call = call_.load()) {
        (*call)();
        call_ = nullptr;
        call_.notify_one();
    }
}

void EngineProcess::run(const Call& call) {
    call_ = &call;
    wake_.signal();
    call_.wait(&call);
}

void EngineProcess::bequeath(Call heir) {
    heir_ = std::move(heir);
    inherits_ = true;
}

void EngineProcess::disinherit() noexcept {
    inherits_ = false;
}

// The dead may have held a lock of libc, or left something half done, so the heir may hang or
// crash. Then it has tried in vain.
void EngineProcess::inherit() noexcept {
    if (inherits_) {
        std::thread{[this] {
            heir_();
            leave(EXIT_SUCCESS);
        }}.detach();
        std::this_thread::sleep_for(limit_);
    }
    leave(EXIT_FAILURE);
}

void EngineProcess::watch(Call on_death) {
    watcher_ = std::thread{[this, on_death = std::move(on_death)] {
        if (ends(engine_, watcher_wake_)) {
            on_death();
        }
    }};
}

EngineProcess::~EngineProcess() {
    if (watcher_.joinable()) {
        watcher_wake_.signal();
        watcher_.join();
    }
    if (born_ > 0) {
        ends_ = true;
        wake_.signal();
        pollfd engine{engine_.get(), POLLIN, 0};
        while (::poll(&engine, 1, -1) < 0 && errno == EINTR) {
        }
    }
}

} // namespace vrdma::control
