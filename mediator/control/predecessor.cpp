// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/control/predecessor.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>

#include <thread>

namespace vrdma::control {
namespace {

constexpr std::chrono::milliseconds pause{2};

// Returns the process that has the lock, or 0.
pid_t holder(const UniqueFd& file) {
    struct flock lock {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    return ::fcntl(file.get(), F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK ? lock.l_pid : 0;
}

// Also if its parent has not waited for it yet.
bool is_dead(pid_t process) {
    const UniqueFd fd{static_cast<int>(::syscall(SYS_pidfd_open, process, 0))};
    pollfd end{fd.get(), POLLIN, 0};
    return fd ? ::poll(&end, 1, 0) == 1 : errno == ESRCH;
}

} // namespace

UniqueFd await_predecessor(const std::string& file, std::chrono::milliseconds limit) {
    UniqueFd fd{::open(file.c_str(), O_RDONLY | O_CLOEXEC)};
    if (!fd) {
        return fd;
    }
    const auto end = std::chrono::steady_clock::now() + limit;
    for (pid_t process = holder(fd);
         process > 0 && is_dead(process) && std::chrono::steady_clock::now() < end;
         process = holder(fd)) {
        std::this_thread::sleep_for(pause);
    }
    struct flock lock {};
    lock.l_type = F_RDLCK; // another process may have it, too
    lock.l_whence = SEEK_SET;
    static_cast<void>(::fcntl(fd.get(), F_SETLK, &lock));
    return fd;
}

} // namespace vrdma::control
