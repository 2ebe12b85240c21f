// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/events.h"

#include <algorithm>

#include "mediator/memory/shared_words.h"

namespace vrdma::hca::soft {

void Events::announce(EventQueue* queue, EventSource& source, std::uint32_t event) noexcept {
    if (queue == nullptr) {
        return;
    }
    source.pending |= 1u << event;
    queue->join(source);
    activate(*queue);
}

void Events::activate(EventQueue& queue) noexcept {
    if (!queue.active.linked) {
        active_.push_back(queue);
    }
}

// What is wanted of a moderated CQ waits until enough was pushed, or for its time.
void Events::tell(CompletionQueue& cq) noexcept {
    if (cq.moderated()) {
        const Clock::time_point now = Clock::now();
        if (!cq.due(now)) {
            if (!cq.deferred.linked) {
                cq.defer(now);
                deferred_.push_back(cq);
            }
            return;
        }
        deferred_.remove(cq);
    }
    announce(cq.eq(), cq.completion_event, 0);
}

void Events::tell_deferred(Clock::time_point now) noexcept {
    for (CompletionQueue* cq = deferred_.front(); cq != nullptr;) {
        CompletionQueue* const next = deferred_.after(*cq);
        if (cq->deadline() <= now) {
            deferred_.remove(*cq);
            announce(cq->eq(), cq->completion_event, 0);
        }
        cq = next;
    }
}

void Events::hurry() noexcept {
    tell_deferred(Clock::time_point::max());
}

Clock::time_point Events::deadline() const noexcept {
    Clock::time_point earliest = Clock::time_point::max();
    for (const CompletionQueue* cq = deferred_.front(); cq != nullptr; cq = deferred_.after(*cq)) {
        earliest = std::min(earliest, cq->deadline());
    }
    return earliest;
}

bool Events::deliver() noexcept {
    if (!deferred_.empty()) {
        tell_deferred(Clock::now());
    }
    if (pushed_.empty() && active_.empty()) {
        return false;
    }
    full_fence();
    const bool pushed = !pushed_.empty();
    while (CompletionQueue* cq = pushed_.pop_front()) {
        if (cq->wants_event()) {
            tell(*cq);
        }
    }
    for (EventQueue* queue = active_.front(); queue != nullptr;) {
        EventQueue* const next = active_.after(*queue);
        if (queue->deliver()) {
            active_.remove(*queue);
        }
        queue = next;
    }
    return pushed;
}

} // namespace vrdma::hca::soft
