// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/queues/events.h"

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
        full_in_a_row_ = 0;
    }
}

void Events::announce_completion(CompletionQueue& cq) noexcept {
    moderated_.cancel(cq);
    cq.defer(false);
    announce(cq.eq(), cq.completion_event, 0);
}

// A wanted event of a moderated CQ waits until enough entries were pushed or its period is over.
void Events::tell(CompletionQueue& cq) noexcept {
    if (cq.has_enough()) {
        announce_completion(cq);
    } else if (!cq.deferred()) {
        cq.defer(true);
        if (const auto period = cq.moderation_period(); period != period.zero()) {
            moderated_.set(cq, Clock::now() + period);
        }
    }
}

void Events::hurry(CompletionQueue& cq) noexcept {
    if (cq.pushed.linked) {
        pushed_.remove(cq);
        full_fence();
        if (cq.wants_event()) {
            cq.defer(true);
        }
    }
    if (cq.deferred()) {
        announce_completion(cq);
    }
}

void Events::forget(CompletionQueue& cq) noexcept {
    pushed_.remove(cq);
    moderated_.cancel(cq);
}

bool Events::tell_some() noexcept {
    constexpr std::size_t most = 64; // of each kind
    const std::size_t pushed = std::min(most, pushed_.size());
    if (pushed != 0) {
        full_fence();
    }
    for (std::size_t i = 0; i < pushed; ++i) {
        CompletionQueue& cq = *pushed_.pop_front();
        if (cq.wants_event()) {
            tell(cq);
        }
    }
    std::size_t due = 0;
    if (!moderated_.empty()) {
        const Clock::time_point now = Clock::now();
        for (CompletionQueue* cq; due < most && (cq = moderated_.pop_due(now)) != nullptr; ++due) {
            announce_completion(*cq);
        }
    }
    return pushed + due != 0;
}

// Returns false if no event queue in the list has room.
bool Events::deliver_some() noexcept {
    constexpr std::size_t most = 16;
    for (std::size_t left = std::min(most, active_.size()); left > 0; --left) {
        EventQueue& queue = *active_.pop_front();
        const EventQueue::Delivery delivery = queue.deliver();
        if (delivery != EventQueue::Delivery::done) {
            active_.push_back(queue);
        }
        full_in_a_row_ = delivery == EventQueue::Delivery::full ? full_in_a_row_ + 1 : 0;
    }
    return full_in_a_row_ < active_.size();
}

bool Events::deliver() noexcept {
    const bool told = tell_some();
    const bool more = deliver_some();
    return told || more;
}

} // namespace vrdma::hca::soft
