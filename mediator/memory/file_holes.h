// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Pages that a file of memory does not have, behind shared mappings of it. Linux makes such a page
// when it is touched, and charges whoever touches it. Where this watches it sends SIGBUS instead
// (userfaultfd(2)), so that somebody can first ask whether the page may be made.
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

    // Fails where the kernel or whoever started us does not let us: before Linux 5.11, or in most
    // containers.
    static Result<FileHoles> open();

    // [start, start + size) is a shared mapping of a file of tmpfs, until something else is mapped
    // there. EPERM: nobody may write to the file by it, so no page can be made there, either.
    Result<> watch(std::byte* start, std::uint64_t size) const noexcept;

    // Makes a page of zeros; for a signal handler. 0, or EEXIST: there is one. EFAULT: it is beyond
    // the end of the file. ENOENT: nothing is watched there any more.
    int make(std::byte* page) const noexcept;
    // EEXIST: the file has that page by now; for a signal handler as well.
    int look(std::byte* page) const noexcept;

    // For the handler that was called because of a touch, one at a time: whoever times faults
    // (fault_times.h) takes one that ended in a signal to last until the thread's next one.
    void end_fault() const noexcept;

  private:
    FileHoles(UniqueFd fd, Mapping own) : fd_{std::move(fd)}, own_{std::move(own)} {}

    UniqueFd fd_;
    Mapping own_; // a page
};

} // namespace vrdma
