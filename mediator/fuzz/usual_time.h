// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Work that others wait for must not take long. The thread's processor time is measured, because
// other threads may have the processor meanwhile. A turn normally takes a millisecond or two,
// without the cost of sanitizers and of a slow fuzzing machine.
#pragma once

#include <chrono>
#include <ctime>

#include "mediator/fuzz/require.h"

namespace vrdma::fuzz {

class UsualTime {
  public:
    static constexpr std::chrono::milliseconds most{200};

    UsualTime() = default;
    UsualTime(const UsualTime&) = delete;
    UsualTime& operator=(const UsualTime&) = delete;
    ~UsualTime() { require(now() - begin_ < most); }

  private:
    static std::chrono::nanoseconds now() {
        timespec time{};
        require(::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time) == 0);
        return std::chrono::seconds{time.tv_sec} + std::chrono::nanoseconds{time.tv_nsec};
    }

    const std::chrono::nanoseconds begin_ = now();
};

} // namespace vrdma::fuzz
