// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A completion queue: CQEs for the guest's process, and an event if it asked for one.
#pragma once

#include "mediator/base/result.h"
#include "mediator/hca/completion_queue.h"
#include "mediator/hca/soft/common/cache_line.h"
#include "mediator/hca/soft/common/list.h"
#include "mediator/hca/soft/common/timers.h"
#include "mediator/hca/soft/config.h"
#include "mediator/hca/soft/memory/guest_buffer.h"
#include "mediator/hca/soft/queues/event_queue.h"
#include "vrdma/pvrdma/queue.h"
#include "vrdma/queue.h"

namespace vrdma::hca::soft {

struct QueuePair;

// A QP's membership in a CQ, once as its send CQ and once as its receive CQ.
struct CqMember {
    QueuePair* qp = nullptr;
    ListHook<CqMember> hook;
};

// What a CQE of PVRDMA calls its WQE and its QP.
struct PvrdmaNames {
    std::uint64_t wr_id;
    std::uint32_t qp;
};

class alignas(cache_line) CompletionQueue {
  public:
    static Result<std::unique_ptr<CompletionQueue>> create(const GuestMemory& memory,
                                                           QueueFormat format, EventQueue* eq,
                                                           const CqSpec& spec);

    Cqn id() const noexcept { return id_; }
    const GuestBuffer& buffer() const noexcept { return buffer_; }
    EventQueue* eq() const noexcept { return eq_; }

    // Writes the entry with its phase bit, and with the timestamp if it is not 0. Returns false if
    // the guest left no room or its index is out of range. The CQ has then failed and takes no more
    // entries.
    [[nodiscard]] bool push(const vrdma_cqe& entry, bool solicited,
                            std::uint64_t timestamp = 0) noexcept;
    // The same in PVRDMA's format.
    [[nodiscard]] bool push(const vrdma_cqe& entry, bool solicited,
                            const PvrdmaNames& names) noexcept;
    QueueFormat format() const noexcept { return format_; }
    bool failed() const noexcept { return failed_; }
    bool timestamped() const noexcept { return timestamped_; }

    // Continues in another ring, and returns the old one. EINVAL if the entries that the guest has
    // not consumed exceed `depth`.
    Result<GuestBuffer> resize(GuestBuffer buffer, std::uint32_t depth) noexcept;

    void moderate(const CqModeration& moderation) noexcept { moderation_ = moderation; }
    // Enough entries were pushed for a wanted event, or the CQ is not moderated.
    bool has_enough() const noexcept;
    std::chrono::microseconds moderation_period() const noexcept {
        return std::chrono::microseconds{moderation_.period_us};
    }
    // A wanted event waits for the end of its moderation.
    void defer(bool waits) noexcept { deferred_ = waits; }
    bool deferred() const noexcept { return deferred_; }

    // Whether the guest wants an event for the entries since the last call. The caller has executed
    // a fence after the push.
    bool wants_event() noexcept;
    // PVRDMA: the guest asks for an event. A request for any entry is the stronger one.
    void arm(bool solicited_only) noexcept;
    // The wanted event was written to the event queue.
    void event_written() noexcept;

    CqState save() const noexcept;
    // The caller announces the events that were waiting. See SliceSpec for `loses_requests`.
    Result<> restore(const CqState& state, bool loses_requests) noexcept;

    List<CqMember, &CqMember::hook> members;
    ListHook<CompletionQueue> pushed; // got entries; arm is to be read
    Timer timer;                      // expires when a wanted event is due
    EventSource completion_event;
    EventSource error_event;

  private:
    // For what PVRDMA's guest wants an event.
    enum class Arm : std::uint8_t { nothing, solicited, any };

    CompletionQueue(QueueFormat format, EventQueue* eq, const CqSpec& spec, GuestBuffer buffer);

    vrdma_cq_control& control() const noexcept {
        return *reinterpret_cast<vrdma_cq_control*>(buffer_.at(0));
    }
    bool has_room() noexcept;
    pvrdma_ring& ring() const noexcept {
        return reinterpret_cast<pvrdma_indices*>(buffer_.at(0))->receives;
    }
    std::uint32_t untaken() const noexcept;
    bool wants_event_by_doorbell() const noexcept;
    std::uint32_t save_requests() const noexcept;
    Result<> restore_requests(std::uint32_t saved, bool loses_requests) noexcept;

    EventQueue* const eq_;
    const Cqn id_;
    const QueueFormat format_;
    const bool timestamped_;
    const bool ignore_overrun_;
    bool solicited_ = false; // an entry since the last look at arm was solicited
    bool failed_ = false;
    bool deferred_ = false;
    std::uint32_t depth_; // a power of two
    CqModeration moderation_;
    GuestBuffer buffer_;
    std::uint32_t producer_ = 0;
    std::uint32_t consumer_ = 0; // the guest's index, as last read
    std::uint32_t fired_ = 0;    // VRDMA_CQ_ARM_SEQUENCE, in place
    std::uint32_t firing_ = 0;
    std::uint32_t reported_ = 0; // producer_ at the last event
    Arm arm_ = Arm::nothing;
    bool uses_events_ = false;         // PVRDMA: the guest has asked for one, at any time
    std::uint32_t last_solicited_ = 0; // PVRDMA: producer_ behind the last such entry
};

} // namespace vrdma::hca::soft
