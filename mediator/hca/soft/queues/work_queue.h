// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The engine's side of a work queue: a ring in guest memory. Its valid WQEs are found by their
// phase bit, or in PVRDMA's format by the ring's indices.
#pragma once

#include "mediator/hca/queue_format.h"
#include "mediator/hca/soft/memory/guest_buffer.h"
#include "mediator/memory/shared_words.h"
#include "vrdma/pvrdma/queue.h"
#include "vrdma/queue.h"

namespace vrdma::hca::soft {

// What a CQE calls its WQE: the count of the WQE in its ring, or an SRQ's cookie; for PVRDMA the
// number that the program gave it.
struct WqeName {
    std::uint32_t index = 0;
    std::uint64_t wr_id = 0;
};

class WorkQueue {
  public:
    // The ring lies at `offset` of the QP's buffer. depth is a power of two, or 0. `indices` is for
    // PVRDMA's format.
    WorkQueue(const GuestBuffer& buffer, std::uint64_t offset, std::uint32_t depth,
              unsigned stride_shift, pvrdma_ring* indices = nullptr)
        : buffer_{buffer},
          offset_{offset},
          depth_{depth},
          stride_shift_{stride_shift},
          indices_{depth != 0 ? indices : nullptr} {
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
        if (indices_ != nullptr) {
            return posted_since(head_) != 0 ? VRDMA_WQE_PHASE : 0;
        }
        const auto ctrl = load_acquire(*reinterpret_cast<const std::uint32_t*>(entry_));
        // The result has the phase bit set, so that it is not 0 for a valid WQE.
        return (ctrl & VRDMA_WQE_PHASE) == phase_ ? ctrl | VRDMA_WQE_PHASE : 0;
    }

    std::byte* entry() const noexcept { return entry_; }

    // The same for a WQE that was taken and is not completed yet. Its producer must not change it,
    // but may have done so.
    std::uint32_t peek(std::uint32_t index) const noexcept {
        if (indices_ != nullptr) {
            return posted_since(index) != 0 ? VRDMA_WQE_PHASE : 0;
        }
        const auto ctrl = load_acquire(*reinterpret_cast<const std::uint32_t*>(place(index)));
        return (ctrl & VRDMA_WQE_PHASE) == phase(index) ? ctrl | VRDMA_WQE_PHASE : 0;
    }
    std::byte* entry(std::uint32_t index) const noexcept { return place(index); }

    // Whether at least `count` WQEs, 1..depth, are posted. Only the last of them is read, because
    // WQEs are posted in order.
    bool has(std::uint32_t count) const noexcept {
        if (indices_ != nullptr) {
            return posted_since(head_) >= count;
        }
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

    // The WQE is done with, and so are all before it: its producer gets their places back. Returns
    // its name, which must be read before.
    WqeName retire(std::uint32_t index) const noexcept {
        if (indices_ == nullptr) {
            return {index, 0};
        }
        // Both kinds of WQEs of PVRDMA begin with it.
        const auto wr_id = load_relaxed(*reinterpret_cast<const std::uint64_t*>(place(index)));
        store_release(indices_->head, (index + 1) & index_mask());
        return {index, wr_id};
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
    std::uint32_t index_mask() const noexcept { return 2 * depth_ - 1; }
    // The number of WQEs from `index` on that their producer has posted. An index of the producer's
    // that cannot be counts as none.
    std::uint32_t posted_since(std::uint32_t index) const noexcept {
        const std::uint32_t tail = load_acquire(indices_->tail);
        const std::uint32_t count = (tail - index) & index_mask();
        return tail > index_mask() || count > depth_ ? 0 : count;
    }
    std::uint32_t phase(std::uint32_t index) const noexcept {
        return (index & depth_) == 0 ? VRDMA_WQE_PHASE : 0;
    }

    const GuestBuffer& buffer_;
    std::uint64_t offset_;
    std::uint32_t depth_;
    unsigned stride_shift_;
    pvrdma_ring* indices_;   // or nullptr: WQEs have phase bits
    std::uint32_t head_ = 0; // free-running count of WQEs taken
    std::uint32_t phase_ = 0;
    std::byte* entry_ = nullptr;
};

// The indices of a ring of PVRDMA, on the first page of its buffer; else nullptr.
inline pvrdma_ring* indices_of(QueueFormat format, const GuestBuffer& buffer,
                               pvrdma_ring pvrdma_indices::*ring) noexcept {
    return format == QueueFormat::pvrdma && buffer.length() != 0
               ? &(reinterpret_cast<pvrdma_indices*>(buffer.at(0))->*ring)
               : nullptr;
}

} // namespace vrdma::hca::soft
