// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Guest memory that changes while it is read, as if another processor of the guest changed it. The
// compiler inserts a call before each load of the mediator (-fsanitize-coverage=trace-loads), and
// memcpy() is wrapped. So all code that reads guest memory twice is tested, and no reader has to be
// marked.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "mediator/fuzz/input.h"
#include "mediator/fuzz/usual_time.h"

namespace vrdma::fuzz {

// Only one can exist at a time.
class ChangingMemory {
  public:
    explicit ChangingMemory(std::span<std::byte> memory);
    ChangingMemory(const ChangingMemory&) = delete;
    ChangingMemory& operator=(const ChangingMemory&) = delete;
    ~ChangingMemory();

    // Plans one more change: after how many reads (or how many repeated reads), where in the bytes
    // that are read, and the new bytes.
    void plan(Input& input);

    // Executes a call as the mediator's turn, of its control thread or of a poller. Planned changes
    // happen only meanwhile. It must not take long (UsualTime).
    template <typename Call>
    void turn(Call&& call) {
        const Turn turn{*this};
        call();
    }

    // Called by the code that the compiler inserts.
    void on_read(const std::byte* at, std::size_t size) noexcept;

  private:
    class Turn {
      public:
        explicit Turn(ChangingMemory& memory);
        Turn(const Turn&) = delete;
        Turn& operator=(const Turn&) = delete;
        ~Turn();

      private:
        const UsualTime time_;
    };

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
