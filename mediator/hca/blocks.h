// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The addresses of the blocks that make up a buffer of the guest. Copies share one array: the
// blocks of a buffer with a million of them are stored once, however many objects know its
// translation.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <utility>

#include "mediator/base/types.h"

namespace vrdma::hca {

class Blocks {
  public:
    using value_type = Iova;
    using iterator = const Iova*;
    using const_iterator = const Iova*;

    Blocks() = default;
    Blocks(const Blocks& other) = default;
    Blocks& operator=(const Blocks& other) = default;
    // A moved-from object is empty.
    Blocks(Blocks&& other) noexcept
        : array_{std::move(other.array_)},
          size_{std::exchange(other.size_, 0)},
          capacity_{std::exchange(other.capacity_, 0)} {}
    Blocks& operator=(Blocks&& other) noexcept {
        array_ = std::move(other.array_);
        size_ = std::exchange(other.size_, 0);
        capacity_ = std::exchange(other.capacity_, 0);
        return *this;
    }
    ~Blocks() = default;
    Blocks(std::initializer_list<Iova> blocks) { append({blocks.begin(), blocks.size()}); }
    // Empty, with room for `capacity` blocks.
    static Blocks reserve(std::size_t capacity) {
        Blocks blocks;
        if (capacity != 0) {
            blocks.grow(capacity);
        }
        return blocks;
    }

    std::size_t size() const noexcept { return size_; }
    std::size_t capacity() const noexcept { return capacity_; }
    bool empty() const noexcept { return size_ == 0; }
    const Iova* data() const noexcept { return array_.get(); }
    const Iova* begin() const noexcept { return data(); }
    const Iova* end() const noexcept { return data() + size_; }
    const Iova& operator[](std::size_t i) const noexcept { return data()[i]; }
    const Iova& front() const noexcept { return data()[0]; }

    // Copies that share the array do not change.
    void append(std::span<const Iova> more) {
        if (size_ + more.size() > capacity_ || array_.use_count() > 1) {
            grow(std::max<std::size_t>(size_ + more.size(), std::size_t{2} * size_));
        }
        std::ranges::copy(more, array_.get() + size_);
        size_ += static_cast<std::uint32_t>(more.size());
    }
    void push_back(Iova block) { append({&block, 1}); }

    // Sets the size to `count` and returns the blocks for the caller to write. The array must have
    // room for them and must not be shared.
    std::span<Iova> refill(std::size_t count) noexcept {
        assert(count <= capacity_ && array_.use_count() <= 1);
        size_ = static_cast<std::uint32_t>(count);
        return {array_.get(), count};
    }

    friend bool operator==(const Blocks& a, const Blocks& b) noexcept {
        return std::equal(a.begin(), a.end(), b.begin(), b.end());
    }

  private:
    void grow(std::size_t capacity) {
        auto array = std::make_shared_for_overwrite<Iova[]>(capacity);
        std::copy(begin(), end(), array.get());
        array_ = std::move(array);
        capacity_ = static_cast<std::uint32_t>(capacity);
    }

    std::shared_ptr<Iova[]> array_; // changed only while it has one owner
    std::uint32_t size_ = 0;
    std::uint32_t capacity_ = 0;
};

} // namespace vrdma::hca
