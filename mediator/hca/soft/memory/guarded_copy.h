// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Touches memory that a guest has promised, and finds out whether it was there.
#pragma once

#include "mediator/hca/soft/memory/copy.h"
#include "mediator/hca/soft/memory/scratch_watch.h"

namespace vrdma::hca::soft {

// Executes touch(), which touches spans of that guest's memory. Returns false if any was absent.
// The spans are then released, and what was read has no meaning.
template <typename Touch>
[[gnu::always_inline]] inline bool guarded(GuestMemory& memory, const SpanList& spans,
                                           Touch&& touch) noexcept {
    const ScratchWatch watch{memory};
    touch();
    if (watch.tripped()) [[unlikely]] {
        release(memory, spans);
        return false;
    }
    return true;
}

// The same for a copy, of which the spans are one side. The other side must be no guest's memory.
[[gnu::always_inline]] inline bool guarded_copy(GuestMemory& memory, const SpanList& spans,
                                                SpanCursor& to, SpanCursor& from) noexcept {
    return guarded(memory, spans, [&] { copy(to, from); });
}

} // namespace vrdma::hca::soft
