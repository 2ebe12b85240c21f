// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/event_queue.h"

#include <algorithm>
#include <bit>

#include "mediator/hca/soft/completion_queue.h"
#include "mediator/memory/shared_words.h"

namespace vrdma::hca::soft {

Result<std::unique_ptr<EventQueue>> EventQueue::create(const GuestMemory& memory, SliceHost& host,
                                                       const EqSpec& spec) {
    const std::uint64_t needed = sizeof(vrdma_eq_control) + spec.depth * sizeof(vrdma_eqe);
    if (!std::has_single_bit(spec.depth) || spec.depth > VRDMA_EQ_MAX_DEPTH ||
        spec.pages.length < needed || spec.pages.first_offset % sizeof(vrdma_eqe) != 0) {
        return fail(std::errc::invalid_argument);
    }
    auto buffer = GuestBuffer::map(memory, spec.pages);
    if (!buffer) {
        return fail(buffer.error());
    }
    return std::unique_ptr<EventQueue>{new EventQueue{host, spec, std::move(*buffer)}};
}

EventQueue::EventQueue(SliceHost& host, const EqSpec& spec, GuestBuffer buffer)
    : host_{host},
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

bool EventQueue::post(std::uint8_t type, std::uint32_t id) noexcept {
    if (posted_count_ == posted_.size()) {
        return false;
    }
    posted_[posted_count_++] = {type, id};
    return true;
}

bool EventQueue::deliver() noexcept {
    const std::uint32_t before = producer_;
    bool room = push_posted();
    while (room && !line_.empty()) {
        room = push_pending(*line_.front());
        if (room) {
            line_.pop_front();
        }
    }
    if (producer_ != before) {
        host_.raise(vector_);
    }
    return posted_count_ == 0 && line_.empty();
}

// False when there is no room left.
bool EventQueue::push_posted() noexcept {
    std::size_t done = 0;
    while (done < posted_count_ && push(posted_[done].type, posted_[done].id)) {
        ++done;
    }
    std::copy(posted_.begin() + done, posted_.begin() + posted_count_, posted_.begin());
    posted_count_ -= done;
    return posted_count_ == 0;
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

bool EventQueue::push(std::uint32_t type, std::uint32_t id, std::uint64_t detail) noexcept {
    const auto* control = reinterpret_cast<const vrdma_eq_control*>(buffer_.at(0));
    // A consumer index out of range looks like a full queue: the guest waits for itself.
    if (producer_ - load_acquire(control->consumer) >= depth_) {
        return false;
    }
    const std::uint64_t index = producer_ & (depth_ - 1);
    auto* entry = reinterpret_cast<vrdma_eqe*>(
        buffer_.at(sizeof(vrdma_eq_control) + index * sizeof(vrdma_eqe)));
    const std::uint32_t phase = (producer_ & depth_) == 0 ? VRDMA_EQE_PHASE : 0;
    store_relaxed(entry->id, id);
    store_relaxed(entry->detail, static_cast<__le64>(detail));
    store_release(entry->header, phase | VRDMA_SET(VRDMA_EQE_TYPE, type));
    ++producer_;
    return true;
}

EqState EventQueue::save() const noexcept {
    EqState state;
    state.producer = producer_;
    state.waiting_count = static_cast<std::uint32_t>(posted_count_);
    std::copy_n(posted_.begin(), posted_count_, state.waiting.begin());
    return state;
}

Result<> EventQueue::restore(const EqState& state) noexcept {
    const auto bad_type = [](const EqState::Event& event) { return event.type > VRDMA_EQE_TYPE; };
    if (state.waiting_count > state.waiting.size() ||
        std::any_of(state.waiting.begin(), state.waiting.end(), bad_type)) {
        return fail(std::errc::invalid_argument);
    }
    producer_ = state.producer;
    posted_count_ = state.waiting_count;
    posted_ = state.waiting;
    return {};
}

} // namespace vrdma::hca::soft
