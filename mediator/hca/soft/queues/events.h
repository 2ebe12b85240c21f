// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The CQs that got entries and may be armed, and the event queues that have something to deliver.
// The poller processes them when it has no other work, so that one fence serves many CQEs. Each
// call processes some of them. A CQ whose event is moderated costs nothing until the event is due.
#pragma once

#include "mediator/hca/soft/common/timers.h"
#include "mediator/hca/soft/queues/completion_queue.h"
#include "mediator/hca/soft/queues/event_queue.h"

namespace vrdma::hca::soft {

class Events {
  public:
    // Makes room for one timer per CQ.
    void reserve(std::size_t completion_queues) { moderated_.reserve(completion_queues); }

    // Entries were pushed: look at arm at the next delivery.
    void pushed(CompletionQueue& cq) noexcept {
        if (!cq.pushed.linked) {
            pushed_.push_back(cq);
        }
    }

    // Queues an event for delivery. Does nothing without a queue.
    void announce(EventQueue* queue, EventSource& source, std::uint32_t event) noexcept;
    void activate(EventQueue& queue) noexcept;

    // Returns whether it did anything, or more may be left to do.
    bool deliver() noexcept;
    // Ends the moderation of the CQ's wanted event: it now waits only for room.
    void hurry(CompletionQueue& cq) noexcept;

    // Some guest must first make room in its queue. Nothing reports when it has.
    bool waiting() const noexcept { return !active_.empty(); }

    // When the next moderated event is due.
    Clock::time_point deadline() const noexcept {
        return moderated_.empty() ? Clock::time_point::max() : moderated_.next();
    }

    void forget(CompletionQueue& cq) noexcept;
    void forget(EventQueue& queue) noexcept {
        active_.remove(queue);
        full_in_a_row_ = 0;
    }

  private:
    void tell(CompletionQueue& cq) noexcept;
    void announce_completion(CompletionQueue& cq) noexcept;
    bool tell_some() noexcept;
    bool deliver_some() noexcept;

    List<CompletionQueue, &CompletionQueue::pushed> pushed_;
    Timers<CompletionQueue> moderated_; // an event is wanted, but not yet due
    List<EventQueue, &EventQueue::active> active_;
    std::size_t full_in_a_row_ = 0; // how many of the latest ones were full
};

} // namespace vrdma::hca::soft
