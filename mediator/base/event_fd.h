// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// An eventfd, by which any thread wakes another one.
#pragma once

#include <sys/eventfd.h>

#include "mediator/base/errno.h"
#include "mediator/base/unique_fd.h"

namespace vrdma {

class EventFd {
  public:
    static Result<EventFd> create() {
        UniqueFd fd{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
        if (!fd) {
            return fail_errno();
        }
        return EventFd{std::move(fd)};
    }

    int fd() const noexcept { return fd_.get(); }
    void signal() const noexcept { ::eventfd_write(fd_.get(), 1); }
    void drain() const noexcept {
        eventfd_t count = 0;
        ::eventfd_read(fd_.get(), &count);
    }

  private:
    explicit EventFd(UniqueFd fd) : fd_{std::move(fd)} {}

    UniqueFd fd_;
};

} // namespace vrdma
