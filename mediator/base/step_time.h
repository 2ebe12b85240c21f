// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// How long one step of long work may take. A touch of memory that a client shares may wait, for as
// long as a tenth of a second. So a step ends with the touch that has exceeded its time, and others
// have their turn.
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
