// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Moves bytes between two lists of spans that are divided differently. A span may have no memory:
// it is read as zeros, and what is written to it is lost.
#pragma once

#include <algorithm>
#include <cstring>

#include "mediator/hca/soft/span_list.h"
#include "mediator/memory/shared_words.h"

namespace vrdma::hca::soft {

// Walks a list of spans once, in pieces of any size. It copies no span: one that was just put into
// the list as two words would be read as one, for which the processor waits until both are stored.
class SpanCursor {
  public:
    explicit SpanCursor(const SpanList& list) : span_{list.begin()}, end_{list.end()} {}

    // What lies ahead in one piece; nothing at the end.
    std::size_t room() noexcept {
        while (span_ != end_ && taken_ == span_->size()) {
            ++span_;
            taken_ = 0;
        }
        return span_ != end_ ? span_->size() - taken_ : 0;
    }
    // Its first byte, if it has memory.
    std::byte* data() const noexcept {
        return span_->data() != nullptr ? span_->data() + taken_ : nullptr;
    }
    void advance(std::size_t bytes) noexcept { taken_ += bytes; }

  private:
    const std::span<std::byte>* span_;
    const std::span<std::byte>* end_;
    std::size_t taken_ = 0; // of the span
};

// A memmove that stores the target's last bytes last: programs poll the last byte of an RDMA WRITE
// and take all before it for written, though IBA 9.5 promises less. Those bytes share an aligned
// word, as a store across a line's end may be seen in halves.
inline void move_bytes(std::span<std::byte> to, const std::byte* from) noexcept {
    using Word = std::uint64_t;
    const auto end = reinterpret_cast<std::uintptr_t>(to.data() + to.size());
    const std::size_t last = std::min(to.size(), (end - 1) % sizeof(Word) + 1);
    const std::size_t head = to.size() - last;
    if (head != 0) {
        std::memmove(to.data(), from, head); // the guest may let them overlap
    }
    if (last == sizeof(Word)) {
        Word word;
        std::memcpy(&word, from + head, sizeof(word));
        store_release(*reinterpret_cast<Word*>(to.data() + head), word);
        return;
    }
    for (std::size_t i = head; i < to.size(); ++i) {
        store_release(to[i], from[i]);
    }
}

inline void move_span(std::span<std::byte> to, const std::byte* from) noexcept {
    if (to.data() == nullptr) {
        return;
    }
    if (from == nullptr) {
        std::memset(to.data(), 0, to.size());
    } else {
        move_bytes(to, from);
    }
}

// Until either side is at its end. Inlined, as most messages are one span on either side: then the
// cursors never leave the processor's registers.
[[gnu::always_inline]] inline void copy(SpanCursor& to, SpanCursor& from) noexcept {
    while (const std::size_t bytes = std::min(to.room(), from.room())) {
        move_span({to.data(), bytes}, from.data());
        to.advance(bytes);
        from.advance(bytes);
    }
}

} // namespace vrdma::hca::soft
