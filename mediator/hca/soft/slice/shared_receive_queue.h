// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A shared receive queue as the engine keeps it: QPs take its WQEs in the order of the ring.
#pragma once

#include "mediator/hca/soft/common/list.h"
#include "mediator/hca/soft/queues/event_queue.h"
#include "mediator/hca/soft/queues/work_queue.h"
#include "mediator/hca/soft/queues/wqe.h"

namespace vrdma::hca::soft {

class CompletionQueue;
class SliceCore;
struct QueuePair;

// An XRC_RECV QP that holds a WQE of an SRQ. QPs of other types keep their SRQ from being
// destroyed.
struct SrqHolder {
    QueuePair* qp = nullptr;
    ListHook<SrqHolder> hook;
};

struct SharedReceiveQueue {
    // The CQ is for an SRQ of an XRC domain, else nullptr.
    static Result<std::unique_ptr<SharedReceiveQueue>> create(SliceCore& slice, CompletionQueue* cq,
                                                              const SrqSpec& spec);
    SharedReceiveQueue(const SharedReceiveQueue&) = delete;
    SharedReceiveQueue& operator=(const SharedReceiveQueue&) = delete;
    ~SharedReceiveQueue() = default;

    // A QP takes the WQE at the head.
    void take() noexcept;
    void arm(std::uint32_t new_limit) noexcept;
    // Returns the old ring.
    Result<GuestBuffer> resize(GuestBuffer ring, std::uint32_t depth,
                               std::optional<std::uint32_t> new_limit) noexcept;

    SrqState save() const noexcept;
    Result<> restore(const SrqState& state) noexcept;

    SliceCore& slice;
    const Srqn id;
    const PdId pd;
    const XrcdId xrcd;
    CompletionQueue* const cq;
    const WqeLimits limits;
    GuestBuffer buffer;
    WorkQueue wqes;
    std::uint32_t limit = 0; // 0: not armed
    EventSource async_events;
    List<SrqHolder, &SrqHolder::hook> holders;

  private:
    SharedReceiveQueue(SliceCore& slice, CompletionQueue* cq, const SrqSpec& spec,
                       GuestBuffer buffer);

    void check_limit() noexcept;
};

} // namespace vrdma::hca::soft
