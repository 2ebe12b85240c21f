// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The formats of queues in guest memory. A slice has one for all of its queues: that of the guest's
// driver. Here is where the parts of a queue lie in its buffer.
#pragma once

#include <cstdint>

#include "vrdma/pvrdma/queue.h"
#include "vrdma/queue.h"

namespace vrdma::hca {

enum class QueueFormat : std::uint8_t {
    vrdma,  // vrdma/queue.h
    pvrdma, // vrdma/pvrdma/queue.h
};

// What an event queue has. Only PVRDMA has a format for each.
enum class EventKind : std::uint8_t { async, completion };

constexpr std::uint32_t event_size(QueueFormat format, EventKind kind) noexcept {
    if (format == QueueFormat::vrdma) {
        return sizeof(vrdma_eqe);
    }
    return kind == EventKind::async ? sizeof(pvrdma_async_event) : sizeof(pvrdma_completion_event);
}

// Bytes of a WQE before its SGEs.
constexpr std::uint32_t send_header(QueueFormat format) noexcept {
    return format == QueueFormat::vrdma ? VRDMA_SQ_PAYLOAD_OFFSET : sizeof(pvrdma_sq_wqe);
}
constexpr std::uint32_t receive_header(QueueFormat format) noexcept {
    return format == QueueFormat::vrdma ? VRDMA_RQ_PAYLOAD_OFFSET : sizeof(pvrdma_rq_wqe);
}

struct QpLayout {
    std::uint64_t sends;
    std::uint64_t receives;
    std::uint64_t size;
};

inline QpLayout qp_layout(QueueFormat format, std::uint32_t sq_depth, unsigned sq_shift,
                          std::uint32_t rq_depth, unsigned rq_shift) noexcept {
    if (format == QueueFormat::vrdma) {
        return {vrdma_sq_offset(sq_shift), vrdma_rq_offset(sq_depth, sq_shift, rq_shift),
                vrdma_qp_buffer_size(sq_depth, sq_shift, rq_depth, rq_shift)};
    }
    return {PVRDMA_ENTRIES_OFFSET, pvrdma_rq_offset(sq_depth, sq_shift),
            pvrdma_qp_buffer_size(sq_depth, sq_shift, rq_depth, rq_shift)};
}

// A queue of one ring: where its entries begin, and its size.
struct RingLayout {
    std::uint64_t entries;
    std::uint64_t size;
};

inline RingLayout cq_layout(QueueFormat format, std::uint32_t depth) noexcept {
    static_assert(sizeof(vrdma_cqe) == sizeof(pvrdma_cqe));
    const std::uint64_t entries =
        format == QueueFormat::vrdma ? VRDMA_QUEUE_CONTROL_SIZE : PVRDMA_ENTRIES_OFFSET;
    return {entries, entries + std::uint64_t{depth} * sizeof(vrdma_cqe)};
}

inline RingLayout srq_layout(QueueFormat format, std::uint32_t depth, unsigned shift) noexcept {
    return format == QueueFormat::vrdma
               ? RingLayout{0, vrdma_srq_buffer_size(depth, shift)}
               : RingLayout{PVRDMA_ENTRIES_OFFSET, pvrdma_ring_buffer_size(depth, shift)};
}

inline RingLayout eq_layout(QueueFormat format, EventKind kind, std::uint32_t depth) noexcept {
    const std::uint64_t entries =
        format == QueueFormat::vrdma ? sizeof(vrdma_eq_control) : PVRDMA_ENTRIES_OFFSET;
    return {entries, entries + std::uint64_t{depth} * event_size(format, kind)};
}

// The bytes of a buffer of which the queue takes `size`. A buffer of PVRDMA may have more pages.
inline std::uint64_t buffer_length(QueueFormat format, std::uint64_t size,
                                   const vrdma_page_list& pages) noexcept {
    const std::uint64_t all = std::uint64_t{pages.count} << VRDMA_PAGE_SHIFT;
    return format == QueueFormat::pvrdma && all > size ? all : size;
}

} // namespace vrdma::hca
