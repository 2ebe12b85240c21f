// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The time limit for one step of long work. A touch of memory that a client shares may wait for up
// to a tenth of a second. So a step ends after the touch that exceeded the limit, and others have
// their turn.
#pragma once

#include <chrono>

namespace vrdma {

class StepTime {
  public:
    using Clock = std::chrono::steady_clock;

    static constexpr std::chrono::milliseconds most{1};

    bool over() const noexcept { return Clock::now() >= end_; }

  private:
    Clock::time_point end_ = Clock::now() + most;
};

} // namespace vrdma
