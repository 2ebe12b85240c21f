// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Which CQs got entries and may be armed, which event queues have something to deliver. This is
// looked at when the poller has nothing better to do, so that one fence serves many CQEs. Each look
// is at some of them, and a CQ whose event is moderated costs nothing until that is due.
#pragma once

#include "mediator/hca/soft/completion_queue.h"
#include "mediator/hca/soft/event_queue.h"
#include "mediator/hca/soft/timers.h"

namespace vrdma::hca::soft {

class Events {
  public:
    // Room for one timer each of so many CQs.
    void reserve(std::size_t completion_queues) { moderated_.reserve(completion_queues); }

    // Entries were pushed: look at arm at the next delivery.
    void pushed(CompletionQueue& cq) noexcept {
        if (!cq.pushed.linked) {
            pushed_.push_back(cq);
        }
    }

    // Something to deliver. Without a queue nobody wants to know.
    void announce(EventQueue* queue, EventSource& source, std::uint32_t event) noexcept;
    void activate(EventQueue& queue) noexcept;

    // Returns whether there was anything to do, and may be more.
    bool deliver() noexcept;
    // What the CQ has to tell waits for nothing but room any more.
    void hurry(CompletionQueue& cq) noexcept;

    // Some queue's guest must make room first; nothing tells when it did.
    bool waiting() const noexcept { return !active_.empty(); }

    // When the next event is due that waits to be moderated.
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
    std::size_t full_in_a_row_ = 0; // of those, that were looked at last
};

} // namespace vrdma::hca::soft
