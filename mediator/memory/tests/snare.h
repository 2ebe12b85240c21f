// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Memory whose pages appear only when a test says so: a thread that touches one waits.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "mediator/base/unique_fd.h"
#include "vrdma/device.h"

namespace vrdma::test {

// Whole pages, all of them missing. When the object is destroyed, waiting threads continue.
class Snare {
  public:
    Snare(std::byte* memory, std::uint64_t size)
        : fd_{static_cast<int>(::syscall(SYS_userfaultfd, UFFD_USER_MODE_ONLY | O_CLOEXEC))} {
        uffdio_api api{.api = UFFD_API, .features = 0, .ioctls = 0};
        EXPECT_EQ(::ioctl(fd_.get(), UFFDIO_API, &api), 0);
        uffdio_register range{};
        range.range = {reinterpret_cast<std::uintptr_t>(memory), size};
        range.mode = UFFDIO_REGISTER_MODE_MISSING;
        EXPECT_EQ(::ioctl(fd_.get(), UFFDIO_REGISTER, &range), 0);
    }

    // Returns the address at which a thread waits.
    std::uint64_t caught() const {
        uffd_msg message{};
        EXPECT_EQ(::read(fd_.get(), &message, sizeof(message)),
                  static_cast<ssize_t>(sizeof(message)));
        return message.arg.pagefault.address;
    }
    void let_go(std::uint64_t address) const {
        alignas(VRDMA_PAGE_SIZE) static std::array<std::byte, VRDMA_PAGE_SIZE> contents{};
        uffdio_copy copy{};
        copy.dst = address;
        copy.src = reinterpret_cast<std::uintptr_t>(contents.data());
        copy.len = VRDMA_PAGE_SIZE;
        EXPECT_EQ(::ioctl(fd_.get(), UFFDIO_COPY, &copy), 0);
    }

  private:
    UniqueFd fd_;
};

} // namespace vrdma::test
