// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A completion queue: CQEs for the guest's process, and an event when it asked for one.
#pragma once

#include "mediator/hca/soft/cache_line.h"
#include "mediator/hca/soft/event_queue.h"
#include "mediator/hca/soft/guest_buffer.h"
#include "mediator/hca/soft/list.h"

namespace vrdma::hca::soft {

struct QueuePair;

// A QP's membership in a CQ, once as its send CQ and once as its receive CQ.
struct CqMember {
    QueuePair* qp = nullptr;
    Link<CqMember> link;
};

class alignas(cache_line) CompletionQueue {
  public:
    static Result<std::unique_ptr<CompletionQueue>> create(const GuestMemory& memory,
                                                           EventQueue* eq, const CqSpec& spec);

    Cqn id() const noexcept { return id_; }
    const GuestBuffer& buffer() const noexcept { return buffer_; }
    EventQueue* eq() const noexcept { return eq_; }

    // Writes the entry; its phase bit is added here. False if the guest left no room or has an
    // index out of range: that is the end of the CQ, and it takes nothing more.
    [[nodiscard]] bool push(const vrdma_cqe& entry, bool solicited) noexcept;
    bool failed() const noexcept { return failed_; }

    // Whether the guest is to be told of what was pushed since the last call. The caller has fenced
    // since the push.
    bool wants_event() noexcept;
    // The event that was wanted is in the event queue.
    void event_written() noexcept;

    CqState save() const noexcept;
    // Events that were waiting are the caller's to announce.
    Result<> restore(const CqState& state) noexcept;

    List<CqMember, &CqMember::link> members;
    Link<CompletionQueue> pushed; // got entries, arm is to be looked at
    EventSource completion_event;
    EventSource error_event;

  private:
    CompletionQueue(EventQueue* eq, const CqSpec& spec, GuestBuffer buffer);

    vrdma_cq_control& control() const noexcept {
        return *reinterpret_cast<vrdma_cq_control*>(buffer_.at(0));
    }
    bool has_room() noexcept;

    EventQueue* const eq_;
    const Cqn id_;
    const std::uint32_t depth_; // a power of two
    const GuestBuffer buffer_;
    std::uint32_t producer_ = 0;
    std::uint32_t consumer_ = 0; // the guest's index when last looked at
    std::uint32_t fired_ = 0;    // VRDMA_CQ_ARM_SEQUENCE, in place
    std::uint32_t firing_ = 0;
    bool solicited_ = false; // something pushed since the last look at arm was
    bool failed_ = false;
};

} // namespace vrdma::hca::soft
