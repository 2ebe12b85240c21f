// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A queue of at most N elements, in place.
#pragma once

#include <array>
#include <bit>
#include <cassert>
#include <cstddef>

namespace vrdma::hca::soft {

template <typename T, std::size_t N>
class Ring {
    static_assert(std::has_single_bit(N));

  public:
    bool empty() const noexcept { return count_ == 0; }
    bool full() const noexcept { return count_ == N; }
    std::size_t size() const noexcept { return count_; }
    void clear() noexcept { count_ = 0; }

    // The i-th from the front.
    T& operator[](std::size_t i) noexcept {
        assert(i < count_);
        return items_[(first_ + i) % N];
    }
    const T& operator[](std::size_t i) const noexcept {
        assert(i < count_);
        return items_[(first_ + i) % N];
    }
    T& front() noexcept { return (*this)[0]; }
    T& back() noexcept { return (*this)[count_ - 1]; }

    void push_back(const T& item) noexcept {
        assert(!full());
        items_[(first_ + count_++) % N] = item;
    }
    void pop_front() noexcept {
        assert(!empty());
        first_ = (first_ + 1) % N;
        --count_;
    }

  private:
    std::array<T, N> items_{};
    std::size_t first_ = 0;
    std::size_t count_ = 0;
};

} // namespace vrdma::hca::soft
