// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Which CQs got entries and may be armed, which event queues have something to deliver. This is
// looked at when the poller has nothing better to do, so that one fence serves many CQEs.
#pragma once

#include "mediator/hca/soft/completion_queue.h"
#include "mediator/hca/soft/event_queue.h"

namespace vrdma::hca::soft {

class Events {
  public:
    // Entries were pushed: look at arm at the next delivery.
    void pushed(CompletionQueue& cq) noexcept {
        if (!cq.pushed.linked) {
            pushed_.push_back(cq);
        }
    }

    // Something to deliver. Without a queue nobody wants to know.
    void announce(EventQueue* queue, EventSource& source, std::uint32_t event) noexcept;
    void activate(EventQueue& queue) noexcept;

    // Returns whether there was anything to do.
    bool deliver() noexcept;

    // Some queue's guest must make room first; nothing tells when it did.
    bool waiting() const noexcept { return !active_.empty(); }

    // When the next event is due that waits to be moderated.
    Clock::time_point deadline() const noexcept;
    // Those come now: before the slices' state stands still.
    void hurry() noexcept;

    void forget(CompletionQueue& cq) noexcept {
        pushed_.remove(cq);
        deferred_.remove(cq);
    }
    void forget(EventQueue& queue) noexcept { active_.remove(queue); }

  private:
    void tell(CompletionQueue& cq) noexcept;
    void tell_deferred(Clock::time_point now) noexcept;

    List<CompletionQueue, &CompletionQueue::pushed> pushed_;
    List<CompletionQueue, &CompletionQueue::deferred> deferred_;
    List<EventQueue, &EventQueue::active> active_;
};

} // namespace vrdma::hca::soft
