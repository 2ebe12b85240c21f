// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Moves bytes between two lists of spans that are divided differently.
#pragma once

#include <algorithm>
#include <cstring>

#include "mediator/hca/soft/span_list.h"

namespace vrdma::hca::soft {

// Walks a list of spans once, in pieces of any size.
class SpanCursor {
  public:
    explicit SpanCursor(const SpanList& list) : next_{list.begin()}, end_{list.end()} {}

    // What lies ahead in one piece; empty at the end.
    std::span<std::byte> ahead() noexcept {
        while (current_.empty() && next_ != end_) {
            current_ = *next_++;
        }
        return current_;
    }
    void advance(std::size_t bytes) noexcept { current_ = current_.subspan(bytes); }

  private:
    std::span<std::byte> current_;
    const std::span<std::byte>* next_;
    const std::span<std::byte>* end_;
};

// Until either side is at its end.
inline void copy(SpanCursor& to, SpanCursor& from) noexcept {
    for (;;) {
        const auto target = to.ahead();
        const auto source = from.ahead();
        const std::size_t bytes = std::min(target.size(), source.size());
        if (bytes == 0) {
            return;
        }
        std::memmove(target.data(), source.data(), bytes); // the guest may let them overlap
        to.advance(bytes);
        from.advance(bytes);
    }
}

} // namespace vrdma::hca::soft
