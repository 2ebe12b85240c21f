// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/slice/shared_receive_queue.h"

#include <infiniband/verbs.h>

#include <bit>

#include "mediator/hca/soft/slice/slice_core.h"

namespace vrdma::hca::soft {
namespace {

bool valid(QueueFormat format, const SrqSpec& spec) noexcept {
    return std::has_single_bit(spec.depth) && spec.depth <= VRDMA_MAX_QUEUE_DEPTH &&
           spec.stride_shift >= VRDMA_RQ_MIN_STRIDE_SHIFT &&
           spec.stride_shift <= VRDMA_MAX_STRIDE_SHIFT &&
           (spec.pages.first_offset & ((1u << spec.stride_shift) - 1)) == 0 &&
           spec.pages.length >= srq_layout(format, spec.depth, spec.stride_shift).size;
}

} // namespace

Result<std::unique_ptr<SharedReceiveQueue>> SharedReceiveQueue::create(SliceCore& slice,
                                                                       CompletionQueue* cq,
                                                                       const SrqSpec& spec) {
    if (!valid(slice.format(), spec)) {
        return fail(std::errc::invalid_argument);
    }
    auto buffer = GuestBuffer::map(slice.memory(), spec.pages);
    if (!buffer) {
        return fail(buffer.error());
    }
    return std::unique_ptr<SharedReceiveQueue>{
        new SharedReceiveQueue{slice, cq, spec, std::move(*buffer)}};
}

SharedReceiveQueue::SharedReceiveQueue(SliceCore& slice_, CompletionQueue* cq_, const SrqSpec& spec,
                                       GuestBuffer buffer_)
    : slice{slice_},
      id{spec.id},
      pd{spec.pd},
      xrcd{spec.xrcd},
      cq{cq_},
      limits{.format = slice_.format(),
             .shared = true,
             .max_sge = spec.max_sge,
             .stride = 1u << spec.stride_shift},
      buffer{std::move(buffer_)},
      wqes{buffer, srq_layout(slice_.format(), spec.depth, spec.stride_shift).entries, spec.depth,
           spec.stride_shift, indices_of(slice_.format(), buffer, &pvrdma_indices::receives)},
      async_events{spec.id.value} {}

void SharedReceiveQueue::take() noexcept {
    wqes.retire(wqes.head());
    wqes.advance();
    check_limit();
}

// A limit that is armed too late is reported at once, because nothing else would report it.
void SharedReceiveQueue::arm(std::uint32_t new_limit) noexcept {
    limit = new_limit;
    check_limit();
}

// If the guest has kept the rules, the new ring has as many posted WQEs as the old one. So an armed
// limit is checked only when the next WQE is taken.
Result<GuestBuffer> SharedReceiveQueue::resize(GuestBuffer ring, std::uint32_t depth,
                                               std::optional<std::uint32_t> new_limit) noexcept {
    if (wqes.posted() > depth || new_limit.value_or(limit) > depth) {
        return fail(std::errc::invalid_argument);
    }
    std::swap(buffer, ring);
    wqes.resize(depth);
    if (new_limit) {
        arm(*new_limit);
    }
    return ring;
}

void SharedReceiveQueue::check_limit() noexcept {
    if (limit != 0 && !wqes.has(limit)) {
        limit = 0;
        slice.announce(*this, IBV_EVENT_SRQ_LIMIT_REACHED);
    }
}

SrqState SharedReceiveQueue::save() const noexcept {
    return {.head = wqes.head(), .limit = limit, .events = async_events.pending};
}

Result<> SharedReceiveQueue::restore(const SrqState& state) noexcept {
    constexpr std::uint32_t known_events = 1u << IBV_EVENT_SRQ_LIMIT_REACHED;
    if (state.limit > wqes.depth() || (state.events & ~known_events) != 0) {
        return fail(std::errc::invalid_argument);
    }
    wqes.seek(state.head);
    limit = state.limit;
    if (state.events != 0) {
        slice.announce(*this, IBV_EVENT_SRQ_LIMIT_REACHED);
    }
    return {};
}

} // namespace vrdma::hca::soft
