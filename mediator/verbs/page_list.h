// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The page lists of guest commands: read once, validated, and kept as translations.
#pragma once

#include <cstdint>
#include <utility>

#include "mediator/base/result.h"
#include "mediator/hca/hca.h"
#include "mediator/memory/guest_memory.h"
#include "mediator/verbs/saved_state.h"
#include "vrdma/device.h"

namespace vrdma::verbs {

// Bounds the memory that a guest's translations take of the mediator's.
class BlockBudget {
  public:
    class Lease {
      public:
        Lease() = default;
        Lease(BlockBudget& budget, std::uint64_t blocks) : budget_{&budget}, blocks_{blocks} {
            budget_->left_ -= blocks_;
        }
        Lease(Lease&& other) noexcept
            : budget_{std::exchange(other.budget_, nullptr)}, blocks_{other.blocks_} {}
        Lease& operator=(Lease&& other) noexcept {
            std::swap(budget_, other.budget_);
            std::swap(blocks_, other.blocks_);
            return *this;
        }
        Lease(const Lease&) = delete;
        Lease& operator=(const Lease&) = delete;
        ~Lease() {
            if (budget_ != nullptr) {
                budget_->left_ += blocks_;
            }
        }

      private:
        BlockBudget* budget_ = nullptr;
        std::uint64_t blocks_ = 0;
    };

    explicit BlockBudget(std::uint64_t blocks) : left_{blocks} {}

    Result<Lease> take(std::uint64_t blocks) {
        if (blocks > left_) {
            return fail(std::errc::not_enough_memory);
        }
        return Lease{*this, blocks};
    }

  private:
    std::uint64_t left_;
};

// A buffer of the guest: where it lies, and its share of the budget.
struct Buffer {
    hca::Translation pages;
    BlockBudget::Lease lease;
};

// Reads the list of a buffer of `length` bytes, which must have exactly the blocks it needs.
Result<Buffer> read_page_list(GuestMemory& memory, BlockBudget& budget, const vrdma_page_list& list,
                              std::uint64_t first_offset, std::uint64_t length);

void save_pages(StateWriter& writer, const hca::Translation& pages);
Result<Buffer> restore_pages(StateReader& reader, GuestMemory& memory, BlockBudget& budget,
                             std::uint64_t length);

} // namespace vrdma::verbs
