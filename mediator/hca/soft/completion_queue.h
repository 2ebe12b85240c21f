// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A completion queue: CQEs for the guest's process, and an event when it asked for one.
#pragma once

#include "mediator/hca/soft/cache_line.h"
#include "mediator/hca/soft/config.h"
#include "mediator/hca/soft/event_queue.h"
#include "mediator/hca/soft/guest_buffer.h"
#include "mediator/hca/soft/list.h"
#include "mediator/hca/soft/timers.h"

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

    // Writes the entry; its phase bit is added here, and the time if there is one. False if the
    // guest left no room or has an index out of range: that is the end of the CQ, and it takes
    // nothing more.
    [[nodiscard]] bool push(const vrdma_cqe& entry, bool solicited,
                            std::uint64_t timestamp = 0) noexcept;
    bool failed() const noexcept { return failed_; }
    bool timestamped() const noexcept { return timestamped_; }

    // Goes on in another ring, and returns the old one. EINVAL if more was not taken than the new
    // one has places.
    Result<GuestBuffer> resize(GuestBuffer buffer, std::uint32_t depth) noexcept;

    void moderate(const CqModeration& moderation) noexcept { moderation_ = moderation; }
    // Enough was pushed for an event that is wanted, or it need not be moderated.
    bool has_enough() const noexcept;
    std::chrono::microseconds moderation_period() const noexcept {
        return std::chrono::microseconds{moderation_.period_us};
    }
    // An event is wanted, and waits to be moderated.
    void defer(bool waits) noexcept { deferred_ = waits; }
    bool deferred() const noexcept { return deferred_; }

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
    Timer timer;                  // an event is wanted, and due then
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
    const bool timestamped_;
    const bool ignore_overrun_;
    bool solicited_ = false; // something pushed since the last look at arm was
    bool failed_ = false;
    bool deferred_ = false;
    std::uint32_t depth_; // a power of two
    CqModeration moderation_;
    GuestBuffer buffer_;
    std::uint32_t producer_ = 0;
    std::uint32_t consumer_ = 0; // the guest's index when last looked at
    std::uint32_t fired_ = 0;    // VRDMA_CQ_ARM_SEQUENCE, in place
    std::uint32_t firing_ = 0;
    std::uint32_t reported_ = 0; // producer_ at the last event
};

} // namespace vrdma::hca::soft
