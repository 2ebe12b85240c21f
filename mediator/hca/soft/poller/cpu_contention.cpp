// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/poller/cpu_contention.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace vrdma::hca::soft {
namespace {

// proc(5): the fourth word is "runnable/all" threads. 0 if it cannot be read.
long runnable_threads(int loadavg) noexcept {
    std::array<char, 128> text{};
    const ssize_t length = ::pread(loadavg, text.data(), text.size(), 0);
    const char* const end = text.data() + std::max<ssize_t>(length, 0);
    const char* word = text.data();
    for (int skipped = 0; skipped < 3; ++skipped) {
        word = std::find(word, end, ' ');
        word += word != end ? 1 : 0;
    }
    long count = 0;
    std::from_chars(word, end, count);
    return count;
}

} // namespace

CpuContention::CpuContention()
    : loadavg_{::open("/proc/loadavg", O_RDONLY | O_CLOEXEC)},
      cores_{::sysconf(_SC_NPROCESSORS_ONLN)} {}

bool CpuContention::look(Clock::time_point now) noexcept {
    constexpr std::chrono::milliseconds between_counts{5};
    if (now >= next_count_) {
        next_count_ = now + between_counts;
        crowded_ = runnable_threads(loadavg_.get()) > cores_;
    }
    return crowded_;
}

} // namespace vrdma::hca::soft
