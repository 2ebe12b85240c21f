// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The engine's side of a work queue: a ring in guest memory, whose valid WQEs are found by their
// phase bit.
#pragma once

#include "mediator/hca/soft/memory/guest_buffer.h"
#include "mediator/memory/shared_words.h"
#include "vrdma/queue.h"

namespace vrdma::hca::soft {

class WorkQueue {
  public:
    // The ring lies at `offset` of the QP's buffer. depth is a power of two, or 0.
    WorkQueue(const GuestBuffer& buffer, std::uint64_t offset, std::uint32_t depth,
              unsigned stride_shift)
        : buffer_{buffer}, offset_{offset}, depth_{depth}, stride_shift_{stride_shift} {
        seek(0);
    }

    std::uint32_t depth() const noexcept { return depth_; }
    std::uint32_t stride() const noexcept { return 1u << stride_shift_; }
    std::uint32_t head() const noexcept { return head_; }

    // The first word of the next WQE if that is valid, else 0.
    std::uint32_t peek() const noexcept {
        if (entry_ == nullptr) {
            return 0;
        }
        const auto ctrl = load_acquire(*reinterpret_cast<const std::uint32_t*>(entry_));
        // The result has the phase bit set, so that it is not 0 for a valid WQE.
        return (ctrl & VRDMA_WQE_PHASE) == phase_ ? ctrl | VRDMA_WQE_PHASE : 0;
    }

    std::byte* entry() const noexcept { return entry_; }

    // The same for a WQE that was taken and is not completed yet. Its producer must not change it,
    // but may have done so.
    std::uint32_t peek(std::uint32_t index) const noexcept {
        const auto ctrl = load_acquire(*reinterpret_cast<const std::uint32_t*>(place(index)));
        return (ctrl & VRDMA_WQE_PHASE) == phase(index) ? ctrl | VRDMA_WQE_PHASE : 0;
    }
    std::byte* entry(std::uint32_t index) const noexcept { return place(index); }

    // Whether at least `count` WQEs, 1..depth, are posted. Only the last of them is read, because
    // WQEs are posted in order.
    bool has(std::uint32_t count) const noexcept {
        const std::uint32_t last = head_ + count - 1;
        const auto ctrl = load_acquire(*reinterpret_cast<const std::uint32_t*>(place(last)));
        return (ctrl & VRDMA_WQE_PHASE) == phase(last);
    }

    // The number of WQEs that are posted and not taken.
    std::uint32_t posted() const noexcept {
        std::uint32_t sure = 0;
        for (std::uint32_t step = depth_; step != 0; step /= 2) {
            sure += sure + step <= depth_ && has(sure + step) ? step : 0;
        }
        return sure;
    }

    void advance() noexcept {
        seek(head_ + 1);
        __builtin_prefetch(entry_ + stride());
    }

    void seek(std::uint32_t head) noexcept {
        head_ = head;
        if (depth_ == 0) {
            return;
        }
        entry_ = place(head);
        phase_ = phase(head);
    }

    // The buffer holds another ring. The count of WQEs continues there.
    void resize(std::uint32_t depth) noexcept {
        depth_ = depth;
        seek(head_);
    }

  private:
    std::byte* place(std::uint32_t index) const noexcept {
        return buffer_.at(offset_ + (std::uint64_t{index & (depth_ - 1)} << stride_shift_));
    }
    std::uint32_t phase(std::uint32_t index) const noexcept {
        return (index & depth_) == 0 ? VRDMA_WQE_PHASE : 0;
    }

    const GuestBuffer& buffer_;
    std::uint64_t offset_;
    std::uint32_t depth_;
    unsigned stride_shift_;
    std::uint32_t head_ = 0; // free-running count of WQEs taken
    std::uint32_t phase_ = 0;
    std::byte* entry_ = nullptr;
};

} // namespace vrdma::hca::soft
