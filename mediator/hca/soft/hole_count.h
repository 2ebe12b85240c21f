// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// How many pages had to be made, or were missing, since the last question: of what this poller has
// touched.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "mediator/memory/fault_guard.h"

namespace vrdma::hca::soft {

class HoleCount {
  public:
    std::uint64_t take() noexcept {
        std::atomic_signal_fence(std::memory_order_seq_cst); // after the touches
        const std::uint64_t now = FaultGuard::met();
        return now - std::exchange(before_, now);
    }

  private:
    std::uint64_t before_ = FaultGuard::met();
};

} // namespace vrdma::hca::soft
