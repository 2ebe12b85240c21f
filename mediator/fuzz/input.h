// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A fuzzer's input, taken piece by piece. After its end, it yields zeros.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace vrdma::fuzz {

class Input {
  public:
    explicit Input(std::span<const std::uint8_t> bytes) : rest_{bytes} {}

    bool empty() const { return rest_.empty(); }
    std::span<const std::uint8_t> rest() const { return rest_; }

    template <typename T>
    T take() {
        T value{};
        const std::size_t size = std::min(sizeof(T), rest_.size());
        std::memcpy(&value, rest_.data(), size);
        rest_ = rest_.subspan(size);
        return value;
    }

    // Takes a count, then that many places (each of type Place) and new values.
    template <typename Place>
    void spoil(std::span<std::byte> bytes) {
        const auto count = take<std::uint8_t>() % 8;
        for (int i = 0; i < count && !bytes.empty(); ++i) {
            const auto at = take<Place>();
            bytes[at % bytes.size()] = take<std::byte>();
        }
    }

  private:
    std::span<const std::uint8_t> rest_;
};

} // namespace vrdma::fuzz
