// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Bounds how much of the mediator's memory a device's objects take. It counts bytes, on both sides
// of the HCA's interface, and blocks of guest buffers, whose own bytes count as well. An object
// takes its part before it is made, and keeps it for as long as it lives.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "mediator/base/result.h"
#include "mediator/base/types.h"

namespace vrdma::verbs {

class MemoryBudget {
  public:
    class Lease {
      public:
        Lease() = default;
        Lease(Lease&& other) noexcept
            : budget_{std::exchange(other.budget_, nullptr)},
              bytes_{other.bytes_},
              blocks_{other.blocks_} {}
        Lease& operator=(Lease&& other) noexcept {
            std::swap(budget_, other.budget_);
            std::swap(bytes_, other.bytes_);
            std::swap(blocks_, other.blocks_);
            return *this;
        }
        Lease(const Lease&) = delete;
        Lease& operator=(const Lease&) = delete;
        ~Lease() {
            if (budget_ != nullptr) {
                budget_->bytes_taken_ -= bytes_;
                budget_->blocks_taken_ -= blocks_;
            }
        }

      private:
        friend class MemoryBudget;
        Lease(MemoryBudget& budget, std::uint64_t bytes, std::uint64_t blocks)
            : budget_{&budget}, bytes_{bytes}, blocks_{blocks} {
            budget.bytes_taken_ += bytes;
            budget.blocks_taken_ += blocks;
        }

        MemoryBudget* budget_ = nullptr;
        std::uint64_t bytes_ = 0;
        std::uint64_t blocks_ = 0;
    };

    // If `bytes` is 0, the bound in bytes is what the blocks take, plus what widen() adds.
    explicit MemoryBudget(std::uint64_t blocks, std::uint64_t bytes = 0)
        : bounded_{bytes != 0}, bytes_{bounded_ ? bytes : blocks * sizeof(Iova)}, blocks_{blocks} {}
    MemoryBudget(const MemoryBudget&) = delete;
    MemoryBudget& operator=(const MemoryBudget&) = delete;
    ~MemoryBudget() = default;

    // Adds room for as many objects as the device's type allows.
    void widen(std::uint64_t objects, std::uint64_t bytes_each) {
        bytes_ += bounded_ ? 0 : objects * bytes_each;
    }

    // Has no more than this to give, though it keeps what has been taken.
    void bound(std::uint64_t most_bytes, std::uint64_t most_blocks) {
        most_bytes_ = most_bytes;
        most_blocks_ = most_blocks;
    }

    bool has(std::uint64_t bytes, std::uint64_t blocks = 0) const {
        const std::uint64_t left = bytes_left();
        return blocks <= blocks_left() && bytes <= left && blocks <= (left - bytes) / sizeof(Iova);
    }

    // Takes `bytes`, and in addition the bytes of the blocks.
    Result<Lease> take(std::uint64_t bytes, std::uint64_t blocks = 0) {
        if (!has(bytes, blocks)) {
            return fail(std::errc::not_enough_memory);
        }
        return Lease{*this, bytes + blocks * sizeof(Iova), blocks};
    }
    Result<Lease> take_blocks(std::uint64_t blocks) { return take(0, blocks); }

    std::uint64_t bytes_left() const { return left(bytes_, most_bytes_, bytes_taken_); }
    std::uint64_t blocks_left() const { return left(blocks_, most_blocks_, blocks_taken_); }
    std::uint64_t bytes_taken() const { return bytes_taken_; }
    std::uint64_t blocks_taken() const { return blocks_taken_; }

  private:
    static std::uint64_t left(std::uint64_t all, std::uint64_t most, std::uint64_t taken) {
        const std::uint64_t room = std::min(all, most);
        return room - std::min(room, taken);
    }

    const bool bounded_;
    std::uint64_t bytes_;
    std::uint64_t blocks_;
    std::uint64_t most_bytes_ = std::numeric_limits<std::uint64_t>::max();
    std::uint64_t most_blocks_ = std::numeric_limits<std::uint64_t>::max();
    std::uint64_t bytes_taken_ = 0;
    std::uint64_t blocks_taken_ = 0;
};

} // namespace vrdma::verbs
