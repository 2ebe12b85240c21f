// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Bounds how much of the mediator's memory a device's objects take. It counts bytes, on both sides
// of the HCA's interface, and blocks of guest buffers, whose own bytes count as well. An object
// takes its part before it is made, and keeps it for as long as it lives.
#pragma once

#include <cstdint>
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
                budget_->bytes_left_ += bytes_;
                budget_->blocks_left_ += blocks_;
                budget_->bytes_taken_ -= bytes_;
                budget_->blocks_taken_ -= blocks_;
            }
        }

      private:
        friend class MemoryBudget;
        Lease(MemoryBudget& budget, std::uint64_t bytes, std::uint64_t blocks)
            : budget_{&budget}, bytes_{bytes}, blocks_{blocks} {
            budget.bytes_left_ -= bytes;
            budget.blocks_left_ -= blocks;
            budget.bytes_taken_ += bytes;
            budget.blocks_taken_ += blocks;
        }

        MemoryBudget* budget_ = nullptr;
        std::uint64_t bytes_ = 0;
        std::uint64_t blocks_ = 0;
    };

    // If `bytes` is 0, the bound in bytes is what the blocks take, plus what widen() adds.
    explicit MemoryBudget(std::uint64_t blocks, std::uint64_t bytes = 0)
        : bounded_{bytes != 0},
          bytes_left_{bounded_ ? bytes : blocks * sizeof(Iova)},
          blocks_left_{blocks} {}
    MemoryBudget(const MemoryBudget&) = delete;
    MemoryBudget& operator=(const MemoryBudget&) = delete;
    ~MemoryBudget() = default;

    // Adds room for as many objects as the device's type allows.
    void widen(std::uint64_t objects, std::uint64_t bytes_each) {
        bytes_left_ += bounded_ ? 0 : objects * bytes_each;
    }

    bool has(std::uint64_t bytes, std::uint64_t blocks = 0) const {
        return blocks <= blocks_left_ && bytes <= bytes_left_ &&
               blocks <= (bytes_left_ - bytes) / sizeof(Iova);
    }

    // Takes `bytes`, and in addition the bytes of the blocks.
    Result<Lease> take(std::uint64_t bytes, std::uint64_t blocks = 0) {
        if (!has(bytes, blocks)) {
            return fail(std::errc::not_enough_memory);
        }
        return Lease{*this, bytes + blocks * sizeof(Iova), blocks};
    }
    Result<Lease> take_blocks(std::uint64_t blocks) { return take(0, blocks); }

    std::uint64_t bytes_left() const { return bytes_left_; }
    std::uint64_t bytes_taken() const { return bytes_taken_; }
    std::uint64_t blocks_taken() const { return blocks_taken_; }

  private:
    const bool bounded_;
    std::uint64_t bytes_left_;
    std::uint64_t blocks_left_;
    std::uint64_t bytes_taken_ = 0;
    std::uint64_t blocks_taken_ = 0;
};

} // namespace vrdma::verbs
