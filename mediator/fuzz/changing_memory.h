// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Guest memory that changes while it is read, as another processor of the guest changes it. The
// compiler calls before each load of the mediator (-fsanitize-coverage=trace-loads), and memcpy()
// is wrapped: so whoever reads guest memory twice meets it, and no reader has to say that it is
// one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "mediator/fuzz/input.h"
#include "mediator/fuzz/usual_time.h"

namespace vrdma::fuzz {

// One at a time.
class ChangingMemory {
  public:
    explicit ChangingMemory(std::span<std::byte> memory);
    ChangingMemory(const ChangingMemory&) = delete;
    ChangingMemory& operator=(const ChangingMemory&) = delete;
    ~ChangingMemory();

    // One more change to come: after how many reads (and whether only those count that read once
    // more), where in what is read, and the bytes.
    void plan(Input& input);

    // The mediator's turn: planned changes happen while it lives, and that is not for long.
    class Turn {
      public:
        explicit Turn(ChangingMemory& memory);
        Turn(const Turn&) = delete;
        Turn& operator=(const Turn&) = delete;
        ~Turn();

      private:
        const UsualTime time_;
    };

    // By the compiler's calls.
    void on_read(const std::byte* at, std::size_t size) noexcept;

  private:
    struct Change {
        std::uint8_t reads;
        bool again;
        std::uint8_t place;
        std::array<std::byte, sizeof(std::uint64_t)> bytes;
    };
    struct Read {
        const std::byte* begin;
        const std::byte* end;
    };

    bool remember(const Read& read) noexcept;

    std::span<std::byte> memory_;
    std::array<Change, 16> changes_{}; // a ring
    std::size_t planned_ = 0;
    std::size_t done_ = 0;
    std::array<Read, 256> reads_{}; // the latest of this turn
    std::size_t count_ = 0;
};

} // namespace vrdma::fuzz
