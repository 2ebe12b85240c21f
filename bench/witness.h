// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Tells whether the calling thread, or the poller that serves it, was preempted. Other programs use
// this machine, too, and a sample from such a time is meaningless. A poller that waits voluntarily
// is not a disturbance: its waiting counts.
#pragma once

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

namespace vrdma::bench {

class Witness {
  public:
    // The environment variable VRDMA_BENCH_POLLER names the poller's thread: PID/task/TID. It may
    // be unset.
    Witness() {
        if (const char* const poller = std::getenv("VRDMA_BENCH_POLLER")) {
            poller_ =
                ::open((std::string{"/proc/"} + poller + "/status").c_str(), O_RDONLY | O_CLOEXEC);
        }
    }
    Witness(const Witness&) = delete;
    Witness& operator=(const Witness&) = delete;
    ~Witness() { ::close(poller_); }

    // Whether there was a disturbance since the last call.
    bool disturbed() {
        rusage used{};
        ::getrusage(RUSAGE_THREAD, &used);
        const std::int64_t now = used.ru_nivcsw + pollers();
        return std::exchange(before_, now) != now;
    }

  private:
    std::int64_t pollers() const {
        constexpr std::string_view name = "nonvoluntary_ctxt_switches:";
        std::array<char, 4096> text{};
        const ssize_t length = ::pread(poller_, text.data(), text.size() - 1, 0);
        const std::string_view all{text.data(), length > 0 ? static_cast<std::size_t>(length) : 0};
        const std::size_t at = all.find(name);
        return at == std::string_view::npos
                   ? 0
                   : std::strtoll(all.data() + at + name.size(), nullptr, 10);
    }

    int poller_ = -1;
    std::int64_t before_ = 0;
};

} // namespace vrdma::bench
