// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Moves bytes between two lists of spans that are divided differently.
#pragma once

#include <algorithm>
#include <cstring>

#include "mediator/hca/soft/span_list.h"
#include "mediator/memory/shared_words.h"

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

// A memmove that stores the target's last bytes last: programs poll the last byte of an RDMA WRITE
// and take all before it for written, though IBA 9.5 promises less. Those bytes share an aligned
// word, as a store across a line's end may be seen in halves.
inline void move_bytes(std::span<std::byte> to, const std::byte* from) noexcept {
    using Word = std::uint64_t;
    const auto end = reinterpret_cast<std::uintptr_t>(to.data() + to.size());
    const std::size_t last = std::min(to.size(), (end - 1) % sizeof(Word) + 1);
    const std::size_t head = to.size() - last;
    std::memmove(to.data(), from, head); // the guest may let them overlap
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

// Until either side is at its end.
inline void copy(SpanCursor& to, SpanCursor& from) noexcept {
    for (;;) {
        const auto target = to.ahead();
        const auto source = from.ahead();
        const std::size_t bytes = std::min(target.size(), source.size());
        if (bytes == 0) {
            return;
        }
        move_bytes(target.first(bytes), source.data());
        to.advance(bytes);
        from.advance(bytes);
    }
}

} // namespace vrdma::hca::soft
