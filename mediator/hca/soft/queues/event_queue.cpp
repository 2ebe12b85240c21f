// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/queues/event_queue.h"

#include <infiniband/verbs.h>

#include <bit>

#include "mediator/hca/soft/queues/completion_queue.h"
#include "mediator/memory/shared_words.h"

namespace vrdma::hca::soft {

Result<std::unique_ptr<EventQueue>> EventQueue::create(const GuestMemory& memory,
                                                       QueueFormat format, SliceHost& host,
                                                       const EqSpec& spec) {
    const std::uint64_t needed = eq_layout(format, spec.kind, spec.depth).size;
    if (!std::has_single_bit(spec.depth) || spec.depth > VRDMA_EQ_MAX_DEPTH ||
        spec.pages.length < needed || spec.pages.first_offset % sizeof(vrdma_eqe) != 0) {
        return fail(std::errc::invalid_argument);
    }
    auto buffer = GuestBuffer::map(memory, spec.pages);
    if (!buffer) {
        return fail(buffer.error());
    }
    return std::unique_ptr<EventQueue>{new EventQueue{format, host, spec, std::move(*buffer)}};
}

EventQueue::EventQueue(QueueFormat format, SliceHost& host, const EqSpec& spec, GuestBuffer buffer)
    : host_{host},
      format_{format},
      kind_{spec.kind},
      id_{spec.id},
      vector_{spec.vector},
      depth_{spec.depth},
      buffer_{std::move(buffer)} {}

void EventQueue::join(EventSource& source) noexcept {
    if (!source.line.linked) {
        line_.push_back(source);
    }
}

void EventQueue::dismiss() noexcept {
    while (line_.pop_front() != nullptr) {
    }
}

EventQueue::Delivery EventQueue::deliver() noexcept {
    constexpr unsigned most = 64;
    bool room = push_port();
    for (unsigned i = 0; i < most && room && !line_.empty(); ++i) {
        room = push_pending(*line_.front());
        if (room) {
            line_.pop_front();
        }
    }
    if (producer_ != raised_) {
        raised_ = producer_;
        host_.raise(vector_);
    }
    if (!room) {
        return Delivery::full;
    }
    return line_.empty() ? Delivery::done : Delivery::more;
}

// False when there is no room left.
bool EventQueue::push_port() noexcept {
    if (port_up_ != port_told_up_) {
        if (!push(port_up_ ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR, VRDMA_PORT)) {
            return false;
        }
        port_told_up_ = port_up_;
    }
    return true;
}

bool EventQueue::push_pending(EventSource& source) noexcept {
    while (source.pending != 0) {
        const auto event = static_cast<std::uint32_t>(std::countr_zero(source.pending));
        const std::uint32_t type = source.cq != nullptr ? VRDMA_EQE_COMPLETION : source.type;
        if (!push(type != 0 ? type : event, source.id, source.detail)) {
            return false;
        }
        if (source.cq != nullptr) {
            source.cq->event_written();
        }
        source.pending &= source.pending - 1;
    }
    return true;
}

// The ring of completions has no types, and that of async events has nothing else.
bool EventQueue::push_pvrdma(std::uint32_t type, std::uint32_t id) noexcept {
    auto& ring = reinterpret_cast<pvrdma_indices*>(buffer_.at(0))->receives;
    const std::uint32_t mask = 2 * depth_ - 1;
    const std::uint32_t head = load_acquire(ring.head);
    if (head > mask || ((producer_ - head) & mask) >= depth_) {
        return false;
    }
    std::byte* const entry =
        buffer_.at(PVRDMA_ENTRIES_OFFSET + std::uint64_t{producer_ & (depth_ - 1)} *
                                               event_size(QueueFormat::pvrdma, kind_));
    if (kind_ == EventKind::completion) {
        store_relaxed(reinterpret_cast<pvrdma_completion_event*>(entry)->cq, id);
    } else {
        store_relaxed(reinterpret_cast<pvrdma_async_event*>(entry)->type, type);
        store_relaxed(reinterpret_cast<pvrdma_async_event*>(entry)->id, id);
    }
    ++producer_;
    store_release(ring.tail, producer_ & mask);
    return true;
}

bool EventQueue::push(std::uint32_t type, std::uint32_t id, std::uint64_t detail) noexcept {
    if (format_ == QueueFormat::pvrdma) {
        return push_pvrdma(type, id);
    }
    const auto* control = reinterpret_cast<const vrdma_eq_control*>(buffer_.at(0));
    // A consumer index out of range looks like a full queue: the guest delays only itself.
    if (producer_ - load_acquire(control->consumer) >= depth_) {
        return false;
    }
    const std::uint64_t index = producer_ & (depth_ - 1);
    auto* entry = reinterpret_cast<vrdma_eqe*>(
        buffer_.at(sizeof(vrdma_eq_control) + index * sizeof(vrdma_eqe)));
    const std::uint32_t phase = (producer_ & depth_) == 0 ? VRDMA_EQE_PHASE : 0;
    store_relaxed(entry->id, id);
    store_relaxed(entry->detail, static_cast<__le64>(detail));
    const std::uint32_t interrupt = producer_ == raised_ ? VRDMA_EQE_INTERRUPT : 0;
    store_release(entry->header, phase | interrupt | VRDMA_SET(VRDMA_EQE_TYPE, type));
    ++producer_;
    return true;
}

EqState EventQueue::save() const noexcept {
    return {.producer = producer_, .port_down = port_told_up_ ? 0u : 1u};
}

Result<> EventQueue::restore(const EqState& state) noexcept {
    if (state.port_down > 1) {
        return fail(std::errc::invalid_argument);
    }
    producer_ = raised_ = state.producer;
    port_told_up_ = port_up_ = state.port_down == 0;
    return {};
}

} // namespace vrdma::hca::soft
