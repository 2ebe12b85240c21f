// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Whether more threads want to run than the host has cores.
#pragma once

#include "mediator/base/unique_fd.h"
#include "mediator/hca/soft/config.h"

namespace vrdma::hca::soft {

class CpuContention {
  public:
    CpuContention();

    // Counts at most once per some milliseconds. Between counts, returns the last result.
    bool look(Clock::time_point now) noexcept;
    bool crowded() const noexcept { return crowded_; }

  private:
    UniqueFd loadavg_;
    Clock::time_point next_count_{};
    bool crowded_ = false;
    const long cores_;
};

} // namespace vrdma::hca::soft
