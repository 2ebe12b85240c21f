// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Random numbers that a seed determines, the same on all machines (SplitMix64).
#pragma once

#include <cstdint>
#include <initializer_list>

namespace vrdma::torture {

class Random {
  public:
    explicit Random(std::uint64_t seed) : state_{seed} {}

    // A separate stream for each combination of names.
    static Random of(std::initializer_list<std::uint64_t> names) {
        Random random{0};
        for (const std::uint64_t name : names) {
            random.state_ = random.next() ^ name;
        }
        return random;
    }

    std::uint64_t next() {
        state_ += 0x9e3779b97f4a7c15;
        std::uint64_t word = state_;
        word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9;
        word = (word ^ (word >> 27)) * 0x94d049bb133111eb;
        return word ^ (word >> 31);
    }

    std::uint32_t below(std::uint32_t bound) {
        return static_cast<std::uint32_t>(((next() >> 32) * bound) >> 32);
    }
    std::uint32_t between(std::uint32_t low, std::uint32_t high) {
        return low + below(high - low + 1);
    }
    bool chance(unsigned percent) { return below(100) < percent; }

    // All powers of two are equally likely.
    std::uint32_t length(std::uint32_t most) {
        unsigned bits = 0;
        while ((most >> bits) != 0) {
            ++bits;
        }
        const std::uint32_t length = below((1u << below(bits)) * 2);
        return length < most ? length : most;
    }

    template <typename List>
    auto& pick(List&& list) {
        return list[below(static_cast<std::uint32_t>(list.size()))];
    }

    // Two sides that have drawn the same numbers have the same state.
    std::uint64_t state() const { return state_; }

  private:
    std::uint64_t state_;
};

} // namespace vrdma::torture
