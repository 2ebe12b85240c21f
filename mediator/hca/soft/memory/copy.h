// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Moves bytes between two lists of spans that are divided differently. A span may have no memory:
// it reads as zeros, and writes to it are lost.
#pragma once

#include <algorithm>
#include <cstring>

#include "mediator/hca/soft/memory/move_bytes.h"
#include "mediator/hca/soft/memory/span_list.h"

namespace vrdma::hca::soft {

// Walks a list of spans once, in pieces of any size. It does not copy spans. A span that was just
// stored into the list as two words would be loaded as one, and the processor would wait for both
// stores.
class SpanCursor {
  public:
    explicit SpanCursor(const SpanList& list) : span_{list.begin()}, end_{list.end()} {}

    // The number of bytes ahead in one piece; 0 at the end.
    std::size_t room() noexcept {
        while (span_ != end_ && taken_ == span_->size()) {
            ++span_;
            taken_ = 0;
        }
        return span_ != end_ ? span_->size() - taken_ : 0;
    }
    // The first of these bytes, or nullptr if the span has no memory.
    std::byte* data() const noexcept {
        return span_->data() != nullptr ? span_->data() + taken_ : nullptr;
    }
    void advance(std::size_t bytes) noexcept { taken_ += bytes; }

  private:
    const std::span<std::byte>* span_;
    const std::span<std::byte>* end_;
    std::size_t taken_ = 0; // of the span
};

inline void move_span(std::span<std::byte> to, const std::byte* from, Seen seen) noexcept {
    if (to.data() == nullptr) {
        return;
    }
    if (from == nullptr) {
        std::memset(to.data(), 0, to.size());
    } else {
        move_bytes(to, from, seen);
    }
}

// Copies until either side is at its end. It is inlined because most messages are one span on
// either side: then the cursors never leave the processor's registers.
[[gnu::always_inline]] inline void copy(SpanCursor& to, SpanCursor& from,
                                        Seen seen = Seen::both) noexcept {
    while (const std::size_t bytes = std::min(to.room(), from.room())) {
        move_span({to.data(), bytes}, from.data(), seen);
        to.advance(bytes);
        from.advance(bytes);
    }
}

} // namespace vrdma::hca::soft
