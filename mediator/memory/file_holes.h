// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Pages that a file in memory does not have, behind shared mappings of it. Linux makes such a page
// when it is touched, and charges the process that touches it. In a range that is watched here,
// Linux sends SIGBUS instead (userfaultfd(2)), so that the handler can first ask whether the page
// may be made.
//
// A system call that is given memory of such a mapping fails with EFAULT at a hole.
#pragma once

#include <cstddef>
#include <cstdint>

#include "mediator/base/mapping.h"
#include "mediator/base/result.h"
#include "mediator/base/unique_fd.h"

namespace vrdma {

class FileHoles {
  public:
    static constexpr std::uint64_t page_size = 4096;

    // Fails if the kernel or the environment that started us does not permit it: before Linux 5.11,
    // or in most containers.
    static Result<FileHoles> open();

    // Watches [start, start + size), a shared mapping of a file of tmpfs, until something else is
    // mapped there. EPERM: the file may not be written by the mapping, so no page can be made
    // there, either.
    Result<> watch(std::byte* start, std::uint64_t size) const noexcept;

    // Makes a page of zeros. A signal handler can call it. Returns 0, or EEXIST: there is one
    // already; EFAULT: it is beyond the end of the file; ENOENT: nothing is watched there any more.
    int make(std::byte* page) const noexcept;
    // Returns EEXIST if the file has that page by now. A signal handler can call it, too.
    int look(std::byte* page) const noexcept;

    // A signal handler calls it after the fault of a touch, one thread at a time. Without it,
    // FaultTimes (fault_times.h) takes a fault that ended in a signal to last until the thread's
    // next one.
    void end_fault() const noexcept;

  private:
    FileHoles(UniqueFd fd, Mapping own) : fd_{std::move(fd)}, own_{std::move(own)} {}

    UniqueFd fd_;
    Mapping own_; // a page
};

} // namespace vrdma
