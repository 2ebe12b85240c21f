// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Detects that memory which the guest promised was absent: touches since the watch began met
// scratch pages. Touches of that guest's window by all pollers count. So absent memory elsewhere in
// the window trips the watch as well. That fails messages of a guest that broke its promise, never
// another guest's.
#pragma once

#include <atomic>

#include "mediator/hca/soft/memory/span_list.h"
#include "mediator/memory/guest_memory.h"

namespace vrdma::hca::soft {

class ScratchWatch {
  public:
    explicit ScratchWatch(const GuestMemory& memory)
        : memory_{memory}, before_{memory.scratch_faults()} {}

    bool tripped() const noexcept {
        std::atomic_signal_fence(std::memory_order_seq_cst); // after the touches
        return memory_.scratch_faults() != before_;
    }

  private:
    const GuestMemory& memory_;
    const std::uint64_t before_;
};

// Releases pages, so that the next touch looks for the guest's memory again.
inline void release(GuestMemory& memory, std::span<std::byte> span) noexcept {
    if (span.data() == nullptr) { // see copy.h
        return;
    }
    const std::byte* const base = memory.at(Iova{0}, 0);
    memory.release(Iova{static_cast<std::uint64_t>(span.data() - base)}, span.size());
}

inline void release(GuestMemory& memory, const SpanList& spans) noexcept {
    for (const auto& span : spans) {
        release(memory, span);
    }
}

} // namespace vrdma::hca::soft
