// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Slows a device whose virtual machine moves, if it dirties memory faster than the virtual machine
// monitor can send it. Each pass of the migration sends what was dirtied in the pass before. The
// migration gains too little if a pass finds more than half as many pages of the device as the one
// before. Then the device gets half of its rate. So the migration converges after a few passes,
// whatever the rate of its channel. A device that uses the same few pages again and again is not
// slowed.
#pragma once

#include <chrono>
#include <cstdint>

#include "vrdma/mdev.h"

namespace vrdma::mdev {

class Pacer {
  public:
    using Clock = std::chrono::steady_clock;

    // Fewer dirty pages are sent while the virtual machine stands still.
    static constexpr std::uint64_t few_pages = 256;
    static constexpr std::uint64_t slowest = 1 << 20; // bytes per second
    // Passes that are shorter count together.
    static constexpr std::chrono::milliseconds shortest_pass{100};

    struct Sample {
        Clock::time_point time;
        vrdma_mdev_precopy module;
        std::uint64_t moved; // bytes of messages that the device has received and sent
    };

    explicit Pacer(const Sample& begin) : begin_{begin} {}

    // Returns the bytes per second that the device may move from now on; 0: no limit.
    std::uint64_t pace(const Sample& now);

  private:
    Sample begin_;                       // of the pass
    std::uint64_t dirtied_ = UINT64_MAX; // pages, in the pass before
    std::uint64_t pace_ = 0;
};

} // namespace vrdma::mdev
