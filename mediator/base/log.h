// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The log of one device: every line names it, and a guest cannot flood the log through it.
#pragma once

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

namespace vrdma {

class DeviceLog {
  public:
    explicit DeviceLog(std::string device) : device_{std::move(device)} {}

    const std::string& device() const noexcept { return device_; }

    template <typename... Args>
    void debug(fmt::format_string<Args...> format, Args&&... args) {
        if (spdlog::should_log(spdlog::level::debug)) {
            write(spdlog::level::debug, format, std::forward<Args>(args)...);
        }
    }

    template <typename... Args>
    void info(fmt::format_string<Args...> format, Args&&... args) {
        write(spdlog::level::info, format, std::forward<Args>(args)...);
    }

    template <typename... Args>
    void warn(fmt::format_string<Args...> format, Args&&... args) {
        write(spdlog::level::warn, format, std::forward<Args>(args)...);
    }

  private:
    using Clock = std::chrono::steady_clock;
    static constexpr int burst = 50;
    static constexpr std::chrono::milliseconds refill{200};

    // A line is not on the heap, so that a lack of memory can be logged. A line that is too long is
    // cut.
    template <typename... Args>
    void write(spdlog::level::level_enum level, fmt::format_string<Args...> format,
               Args&&... args) {
        std::array<char, 1000> line;
        const auto written =
            fmt::format_to_n(line.data(), line.size(), format, std::forward<Args>(args)...);
        write_line(level, {line.data(), std::min(written.size, line.size())});
    }

    void write_line(spdlog::level::level_enum level, std::string_view text) {
        const std::lock_guard lock{mutex_};
        const auto now = Clock::now();
        const auto grown = (now - refilled_) / refill;
        if (grown > 0) {
            tokens_ = static_cast<int>(std::min<Clock::rep>(burst, tokens_ + grown));
            refilled_ = now;
        }
        if (tokens_ == 0) {
            ++dropped_;
            return;
        }
        --tokens_;
        if (dropped_ > 0) {
            spdlog::warn("{}: {} lines dropped", device_, std::exchange(dropped_, 0));
        }
        spdlog::log(level, "{}: {}", device_, text);
    }

    std::string device_;
    std::mutex mutex_; // pollers write too, when a slice fails
    int tokens_ = burst;
    unsigned dropped_ = 0;
    Clock::time_point refilled_ = Clock::now();
};

} // namespace vrdma
