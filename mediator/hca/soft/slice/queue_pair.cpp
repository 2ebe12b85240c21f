// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/slice/queue_pair.h"

#include <bit>

#include "mediator/hca/soft/slice/slice_core.h"

namespace vrdma::hca::soft {
namespace {

bool valid_ring(std::uint32_t depth, unsigned stride_shift, unsigned min_shift) noexcept {
    return depth == 0 || (std::has_single_bit(depth) && depth <= VRDMA_MAX_QUEUE_DEPTH &&
                          stride_shift >= min_shift && stride_shift <= VRDMA_MAX_STRIDE_SHIFT);
}

// No WQE may cross a page.
bool aligned(const QpSpec& spec, std::uint64_t ring_offset, unsigned stride_shift) noexcept {
    return ((spec.pages.first_offset + ring_offset) & ((1u << stride_shift) - 1)) == 0;
}

QpLayout layout_of(QueueFormat format, const QpSpec& spec) noexcept {
    return qp_layout(format, spec.sq_depth, spec.sq_stride_shift, spec.rq_depth,
                     spec.rq_stride_shift);
}

bool has_queues(const QpSpec& spec) noexcept {
    return spec.type != QpType::xrc_recv;
}

bool valid(QueueFormat format, const QpSpec& spec) noexcept {
    if (!has_queues(spec)) {
        return spec.sq_depth == 0 && spec.rq_depth == 0;
    }
    if (!valid_ring(spec.sq_depth, spec.sq_stride_shift, VRDMA_SQ_MIN_STRIDE_SHIFT) ||
        !valid_ring(spec.rq_depth, spec.rq_stride_shift, VRDMA_RQ_MIN_STRIDE_SHIFT)) {
        return false;
    }
    const QpLayout layout = layout_of(format, spec);
    return aligned(spec, layout.sends, spec.sq_stride_shift) &&
           aligned(spec, layout.receives, spec.rq_stride_shift) &&
           spec.pages.first_offset % sizeof(std::uint64_t) == 0 && spec.pages.length >= layout.size;
}

WqeLimits send_limits_of(QueueFormat format, const QpSpec& spec) noexcept {
    WqeLimits limits{.format = format,
                     .type = spec.type,
                     .max_sge = spec.max_send_sge,
                     .stride = 1u << spec.sq_stride_shift,
                     .max_inline = spec.max_inline,
                     .opcodes = legal_opcodes(spec.type, spec.doorbell_page == 0)};
    if (spec.type == QpType::xrc_send) {
        limits.payload_offset += sizeof(vrdma_sq_xrc);
    }
    if (spec.type == QpType::ud) {
        limits.max_length = max_mtu; // the port's limit, which may change, applies as well
    }
    return limits;
}

WqeLimits recv_limits_of(QueueFormat format, const QpSpec& spec,
                         const SharedReceiveQueue* srq) noexcept {
    return srq != nullptr ? srq->limits
                          : WqeLimits{.format = format,
                                      .type = spec.type,
                                      .max_sge = spec.max_recv_sge,
                                      .stride = 1u << spec.rq_stride_shift};
}

} // namespace

Result<std::unique_ptr<QueuePair>> QueuePair::create(SliceCore& slice, CompletionQueue* send_cq,
                                                     CompletionQueue* recv_cq,
                                                     SharedReceiveQueue* srq, const QpSpec& spec) {
    if (!valid(slice.format(), spec)) {
        return fail(std::errc::invalid_argument);
    }
    auto buffer =
        has_queues(spec) ? GuestBuffer::map(slice.memory(), spec.pages) : Result<GuestBuffer>{};
    if (!buffer) {
        return fail(buffer.error());
    }
    std::unique_ptr<QueuePair> qp{
        new QueuePair{slice, send_cq, recv_cq, srq, spec, std::move(*buffer)}};
    if (slice.port() != nullptr) {
        auto connection = slice.port()->connect(*qp, spec);
        if (!connection) {
            return fail(connection.error());
        }
        qp->connection = std::move(*connection);
    }
    return qp;
}

QueuePair::QueuePair(SliceCore& slice_, CompletionQueue* send_cq_, CompletionQueue* recv_cq_,
                     SharedReceiveQueue* srq_, const QpSpec& spec, GuestBuffer buffer_)
    : slice{slice_},
      send_cq{send_cq_},
      id{spec.id},
      type{spec.type},
      signal_all{spec.signal_all},
      blocks_own_multicast{spec.blocks_own_multicast},
      handle{spec.handle},
      xrcd{spec.xrcd},
      send_limits{send_limits_of(slice_.format(), spec)},
      recv_cq{recv_cq_},
      srq{srq_},
      pd{spec.pd},
      recv_pd{srq_ != nullptr ? srq_->pd : spec.pd},
      recv_limits{recv_limits_of(slice_.format(), spec, srq_)},
      buffer{std::move(buffer_)},
      sq{buffer, layout_of(slice_.format(), spec).sends, spec.sq_depth, spec.sq_stride_shift,
         indices_of(slice_.format(), buffer, &pvrdma_indices::sends)},
      rq{buffer, layout_of(slice_.format(), spec).receives, spec.rq_depth, spec.rq_stride_shift,
         indices_of(slice_.format(), buffer, &pvrdma_indices::receives)},
      doorbell_page{spec.doorbell_page},
      held{srq_ != nullptr || !has_queues(spec) ? std::make_unique<RecvWqe>() : nullptr},
      send_member{this, {}},
      recv_member{this, {}},
      srq_holder{this, {}},
      async_events{slice_.format() == QueueFormat::vrdma ? spec.id.value : spec.handle} {}

QueuePair::~QueuePair() = default;

} // namespace vrdma::hca::soft
