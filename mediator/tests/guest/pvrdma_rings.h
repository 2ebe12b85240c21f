// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The data path of a guest with Linux's driver for PVRDMA: its ends of the rings. The arithmetic is
// the driver's and not the device's, so each can show a mistake of the other.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <span>
#include <utility>

#include "mediator/memory/shared_words.h"
#include "mediator/tests/guest/buffer.h"
#include "vrdma/pvrdma/queue.h"
#include "vrdma/queue.h"

namespace vrdma::test {

// `entries` need not be a power of two: see pvrdma_event_depth().
class PvIndices {
  public:
    PvIndices(pvrdma_ring* ring, std::uint32_t entries) : ring_{ring}, entries_{entries} {}

    // Where the next entry is written, or read. Nothing: the ring is full, or empty.
    std::optional<std::uint32_t> space() const {
        const auto [tail, head] = load();
        return tail != (head ^ entries_) ? std::optional{tail & (entries_ - 1)} : std::nullopt;
    }
    std::optional<std::uint32_t> data() const {
        const auto [tail, head] = load();
        return tail != head ? std::optional{head & (entries_ - 1)} : std::nullopt;
    }
    void produce() const { count(ring_->tail); }
    void consume() const { count(ring_->head); }
    pvrdma_ring& ring() const { return *ring_; }
    void reset() const { *ring_ = {}; }

  private:
    std::pair<std::uint32_t, std::uint32_t> load() const {
        const std::uint32_t tail = load_acquire(ring_->tail);
        const std::uint32_t head = load_acquire(ring_->head);
        return {tail, head};
    }
    void count(std::uint32_t& index) const {
        store_release(index, (index + 1) & ((entries_ << 1) - 1));
    }

    pvrdma_ring* ring_;
    std::uint32_t entries_;
};

// A ring that only the device writes: a CQ, or one of events.
template <typename Entry>
class PvConsumer {
  public:
    PvConsumer(Buffer buffer, std::uint32_t entries)
        : buffer_{std::move(buffer)}, indices_{&buffer_.at<pvrdma_indices>(0)->receives, entries} {}

    std::optional<Entry> poll() const {
        const auto at = indices_.data();
        if (!at) {
            return std::nullopt;
        }
        const Entry entry = *buffer_.at<Entry>(PVRDMA_ENTRIES_OFFSET + *at * sizeof(Entry));
        indices_.consume();
        return entry;
    }
    const Buffer& buffer() const { return buffer_; }
    const PvIndices& indices() const { return indices_; }

  private:
    Buffer buffer_;
    PvIndices indices_;
};

using PvCq = PvConsumer<pvrdma_cqe>;

// A ring of WQEs.
template <typename Header>
class PvProducer {
  public:
    PvProducer(Buffer buffer, std::uint64_t offset, std::uint32_t depth, unsigned stride_shift,
               pvrdma_ring pvrdma_indices::*ring)
        : buffer_{std::move(buffer)},
          offset_{offset},
          stride_shift_{stride_shift},
          indices_{&(buffer_.at<pvrdma_indices>(0)->*ring), depth} {}

    // Returns false if the ring is full.
    [[nodiscard]] bool post(Header header, std::span<const vrdma_sge> sges) const {
        const auto at = indices_.space();
        if (!at) {
            return false;
        }
        header.num_sge = static_cast<std::uint32_t>(sges.size());
        const std::uint64_t entry = offset_ + (std::uint64_t{*at} << stride_shift_);
        buffer_.write(entry, std::as_bytes(std::span{&header, 1}));
        buffer_.write(entry + sizeof(header), std::as_bytes(sges));
        indices_.produce();
        return true;
    }
    const PvIndices& indices() const { return indices_; }

  private:
    Buffer buffer_;
    std::uint64_t offset_;
    unsigned stride_shift_;
    PvIndices indices_;
};

using PvReceives = PvProducer<pvrdma_rq_wqe>;
using PvSends = PvProducer<pvrdma_sq_wqe>;

// Strides are those that the driver computes for so many SGEs.
struct PvShape {
    std::uint32_t sq_depth = 16;
    std::uint32_t rq_depth = 16;
    std::uint32_t max_send_sge = 3;
    std::uint32_t max_recv_sge = 3;

    static unsigned shift(std::size_t header, std::uint32_t sges) {
        unsigned shift = 0;
        while (std::size_t{1} << shift < header + sges * sizeof(vrdma_sge)) {
            ++shift;
        }
        return shift;
    }
    unsigned sq_shift() const { return shift(sizeof(pvrdma_sq_wqe), max_send_sge); }
    unsigned rq_shift() const { return shift(sizeof(pvrdma_rq_wqe), max_recv_sge); }
    std::uint64_t sq_pages() const { return pages(std::uint64_t{sq_depth} << sq_shift()); }
    std::uint64_t rq_pages() const { return pages(std::uint64_t{rq_depth} << rq_shift()); }
    std::uint64_t size() const { return (1 + sq_pages() + rq_pages()) * PVRDMA_PAGE_SIZE; }
    std::uint64_t rq_offset() const { return (1 + sq_pages()) * PVRDMA_PAGE_SIZE; }

    static std::uint64_t pages(std::uint64_t bytes) {
        return (bytes + PVRDMA_PAGE_SIZE - 1) / PVRDMA_PAGE_SIZE;
    }
};

// A queue pair: the rings, and the doorbell that its posts ring.
class PvQp {
  public:
    PvQp(std::uint32_t qpn, std::uint32_t handle, const PvShape& shape, const Buffer& buffer,
         std::function<void(std::uint32_t)> doorbell)
        : qpn{qpn},
          handle{handle},
          sends{buffer, PVRDMA_PAGE_SIZE, shape.sq_depth, shape.sq_shift(), &pvrdma_indices::sends},
          receives{buffer, shape.rq_offset(), shape.rq_depth, shape.rq_shift(),
                   &pvrdma_indices::receives},
          doorbell_{std::move(doorbell)} {}

    void post_send(const pvrdma_sq_wqe& wqe, std::span<const vrdma_sge> sges) const {
        ASSERT_TRUE(sends.post(wqe, sges)) << "the send queue is full";
        doorbell_(handle | PVRDMA_UAR_QP_SEND);
    }
    void post_recv(std::uint64_t wr_id, std::span<const vrdma_sge> sges) const {
        ASSERT_TRUE(receives.post({wr_id, 0, 0}, sges)) << "the receive queue is full";
        doorbell_(handle | PVRDMA_UAR_QP_RECV);
    }
    void ring(std::uint32_t bits) const { doorbell_(handle | bits); }
    void reset() const {
        sends.indices().reset();
        receives.indices().reset();
    }

    std::uint32_t qpn;
    std::uint32_t handle;
    PvSends sends;
    PvReceives receives;

  private:
    std::function<void(std::uint32_t)> doorbell_;
};

inline pvrdma_sq_wqe send_wqe(std::uint64_t wr_id, std::uint32_t opcode = PVRDMA_SEND,
                              std::uint32_t flags = PVRDMA_SEND_SIGNALED) {
    pvrdma_sq_wqe wqe{};
    wqe.wr_id = wr_id;
    wqe.opcode = opcode;
    wqe.flags = flags;
    return wqe;
}

} // namespace vrdma::test
