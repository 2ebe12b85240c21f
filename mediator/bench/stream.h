// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// WRITEs of one guest to the other, as fast as its poller executes them.
#pragma once

#include <cstdint>

#include "mediator/bench/parties.h"

namespace vrdma::bench {

// Keeps the send queue filled in batches; the last of a batch is signaled.
class Stream {
  public:
    // The window is a number of batches.
    Stream(Pair& pair, std::uint32_t batch, std::uint32_t window)
        : pair_{pair}, batch_{batch}, window_{window} {}

    void post_batch(const test::SendWr& wr);
    void finish();

  private:
    void take();

    Pair& pair_;
    const std::uint32_t batch_;
    const std::uint32_t window_;
    std::uint32_t in_flight_ = 0; // batches
};

// An inline WRITE of the value, which must outlive it.
test::SendWr word_write(Pair& pair, const std::uint64_t& value);

} // namespace vrdma::bench
