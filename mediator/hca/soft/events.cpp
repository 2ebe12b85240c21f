// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/events.h"

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

bool Events::deliver() noexcept {
    if (pushed_.empty() && active_.empty()) {
        return false;
    }
    full_fence();
    const bool pushed = !pushed_.empty();
    while (CompletionQueue* cq = pushed_.pop_front()) {
        if (cq->wants_event()) {
            announce(cq->eq(), cq->completion_event, 0);
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
