// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Counts pages that this poller touched and that had to be created, or were absent, since the last
// take().
#pragma once

#include <cstdint>
#include <utility>

#include "mediator/memory/fault_guard.h"

namespace vrdma::hca::soft {

class HoleCount {
  public:
    bool any() const noexcept { return FaultGuard::met() != before_; }
    std::uint64_t take() noexcept {
        const std::uint64_t now = FaultGuard::met();
        return now - std::exchange(before_, now);
    }

  private:
    std::uint64_t before_ = FaultGuard::met();
};

} // namespace vrdma::hca::soft
