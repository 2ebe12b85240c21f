// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Pieces of host memory that together are one piece of a message. Bounded in count and in bytes: a
// message that does not fit is moved in several turns.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace vrdma::hca::soft {

class SpanList {
  public:
    static constexpr std::size_t capacity = 64;

    // An empty list with room for `limit` bytes.
    explicit SpanList(std::uint64_t limit) : room_{limit} {}
    // A list of one piece. reading() takes a piece that is not written to.
    static SpanList of(std::span<std::byte> piece) noexcept {
        SpanList list{piece.size()};
        if (!piece.empty()) {
            list.add(piece);
        }
        return list;
    }
    static SpanList reading(std::span<const std::byte> piece) noexcept {
        return of({const_cast<std::byte*>(piece.data()), piece.size()});
    }
    SpanList(const SpanList& other) noexcept { *this = other; }
    SpanList& operator=(const SpanList& other) noexcept {
        if (this != &other) {
            count_ = other.count_;
            bytes_ = other.bytes_;
            room_ = other.room_;
            std::uninitialized_copy(other.begin(), other.end(), spans_);
        }
        return *this;
    }
    ~SpanList() = default;

    bool full() const noexcept { return room_ == 0 || count_ == capacity; }
    std::uint64_t room() const noexcept { return room_; }
    std::uint64_t bytes() const noexcept { return bytes_; }

    // The list must not be full. The piece has at most room() bytes.
    void add(std::span<std::byte> piece) noexcept {
        assert(!full() && piece.size() <= room_);
        std::construct_at(&spans_[count_++], piece);
        bytes_ += piece.size();
        room_ -= piece.size();
    }

    const std::span<std::byte>* begin() const noexcept { return spans_; }
    const std::span<std::byte>* end() const noexcept { return spans_ + count_; }

  private:
    std::size_t count_ = 0;
    std::uint64_t bytes_ = 0;
    std::uint64_t room_;
    // The first count_ are valid. Constructing all of them would take as long as everything else
    // that a small message needs.
    union {
        std::span<std::byte> spans_[capacity];
    };
};

} // namespace vrdma::hca::soft
