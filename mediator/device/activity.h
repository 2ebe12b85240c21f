// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// What the devices of one vrdmad have done since it started, for its administrator. Belongs to the
// control thread.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>

namespace vrdma {

// How long the commands of the admin queues took, in classes of their durations.
struct CommandTimes {
    static constexpr std::array<std::chrono::microseconds, 16> bounds{
        std::chrono::microseconds{1},   std::chrono::microseconds{2},
        std::chrono::microseconds{5},   std::chrono::microseconds{10},
        std::chrono::microseconds{20},  std::chrono::microseconds{50},
        std::chrono::microseconds{100}, std::chrono::microseconds{200},
        std::chrono::microseconds{500}, std::chrono::milliseconds{1},
        std::chrono::milliseconds{2},   std::chrono::milliseconds{5},
        std::chrono::milliseconds{10},  std::chrono::milliseconds{20},
        std::chrono::milliseconds{50},  std::chrono::milliseconds{100}};

    void add(std::chrono::nanoseconds duration) noexcept {
        const auto bound = std::ranges::lower_bound(bounds, duration);
        ++counts[static_cast<std::size_t>(bound - bounds.begin())];
        sum += duration;
    }

    std::array<std::uint64_t, bounds.size() + 1> counts{}; // the last is of those beyond all bounds
    std::chrono::nanoseconds sum{};
};

struct Activity {
    CommandTimes command_times;
    std::uint64_t restored = 0; // devices, from another host or from the vrdmad before
    std::uint64_t gave_way = 0; // devices, to another host
};

} // namespace vrdma
