// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/queues/completion_queue.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "mediator/hca/soft/queues/pvrdma_wqe.h"
#include "mediator/memory/shared_words.h"

namespace vrdma::hca::soft {

Result<std::unique_ptr<CompletionQueue>> CompletionQueue::create(const GuestMemory& memory,
                                                                 QueueFormat format, EventQueue* eq,
                                                                 const CqSpec& spec) {
    const std::uint64_t needed = cq_layout(format, spec.depth).size;
    if (!std::has_single_bit(spec.depth) || spec.depth > VRDMA_MAX_CQ_DEPTH ||
        spec.pages.length < needed || spec.pages.first_offset % sizeof(vrdma_cqe) != 0) {
        return fail(std::errc::invalid_argument);
    }
    auto buffer = GuestBuffer::map(memory, spec.pages);
    if (!buffer) {
        return fail(buffer.error());
    }
    return std::unique_ptr<CompletionQueue>{
        new CompletionQueue{format, eq, spec, std::move(*buffer)}};
}

CompletionQueue::CompletionQueue(QueueFormat format, EventQueue* eq, const CqSpec& spec,
                                 GuestBuffer buffer)
    : completion_event{spec.id.value, this},
      error_event{spec.id.value},
      eq_{eq},
      id_{spec.id},
      format_{format},
      timestamped_{spec.timestamped},
      ignore_overrun_{spec.ignore_overrun},
      depth_{spec.depth},
      moderation_{spec.moderation},
      buffer_{std::move(buffer)} {}

// Reads the guest's index only if the ring may be full, to leave its cache line with the guest.
bool CompletionQueue::has_room() noexcept {
    if (producer_ - consumer_ < depth_ || ignore_overrun_) {
        return true;
    }
    consumer_ = load_acquire(control().consumer);
    return producer_ - consumer_ < depth_;
}

bool CompletionQueue::push(const vrdma_cqe& entry, bool solicited,
                           std::uint64_t timestamp) noexcept {
    if (failed_ || !has_room()) {
        failed_ = true;
        return false;
    }
    const std::uint64_t index = producer_ & (depth_ - 1);
    std::byte* to = buffer_.at(VRDMA_QUEUE_CONTROL_SIZE + (index << VRDMA_CQE_SHIFT));
    constexpr std::size_t first = sizeof(entry.ctrl);
    std::memcpy(to + first, reinterpret_cast<const std::byte*>(&entry) + first,
                sizeof(entry) - first);
    auto* written = reinterpret_cast<vrdma_cqe*>(to);
    if (timestamp != 0) {
        written->timestamp = timestamp;
    }
    const std::uint32_t phase = (producer_ & depth_) == 0 ? VRDMA_CQE_PHASE : 0;
    store_release(written->ctrl, entry.ctrl | phase);
    ++producer_;
    solicited_ |= solicited;
    return true;
}

// An index out of range counts as that of a guest that takes nothing.
std::uint32_t CompletionQueue::untaken() const noexcept {
    const std::uint32_t mask = 2 * depth_ - 1;
    const std::uint32_t head = load_acquire(ring().head);
    return head > mask ? depth_ : (producer_ - head) & mask;
}

bool CompletionQueue::push(const vrdma_cqe& entry, bool solicited,
                           const PvrdmaNames& names) noexcept {
    if (!failed_ && producer_ - consumer_ >= depth_) {
        consumer_ = producer_ - untaken();
    }
    if (failed_ || producer_ - consumer_ >= depth_) {
        failed_ = true;
        return false;
    }
    const std::uint64_t index = producer_ & (depth_ - 1);
    const pvrdma_cqe to = pvrdma::to_cqe(entry, names.wr_id, names.qp);
    std::memcpy(buffer_.at(PVRDMA_ENTRIES_OFFSET + (index << VRDMA_CQE_SHIFT)), &to, sizeof(to));
    ++producer_;
    store_release(ring().tail, producer_ & (2 * depth_ - 1));
    last_solicited_ = solicited ? producer_ : last_solicited_;
    return true;
}

void CompletionQueue::arm(bool solicited_only) noexcept {
    uses_events_ = true;
    arm_ = std::max(arm_, solicited_only ? Arm::solicited : Arm::any);
}

// The doorbell may arrive after entries that the guest had not seen when it rang it. So the event
// is for all entries since the last event that the guest has not taken.
bool CompletionQueue::wants_event_by_doorbell() const noexcept {
    if (arm_ == Arm::nothing) {
        return false;
    }
    const std::uint32_t new_ones = std::min(producer_ - reported_, untaken());
    const std::uint32_t newest = arm_ == Arm::any ? producer_ : last_solicited_;
    return producer_ - newest < new_ones;
}

bool CompletionQueue::wants_event() noexcept {
    if (format_ == QueueFormat::pvrdma) {
        return wants_event_by_doorbell();
    }
    const std::uint32_t arm = load_acquire(control().arm);
    const bool solicited = std::exchange(solicited_, false);
    firing_ = arm & VRDMA_CQ_ARM_SEQUENCE;
    return firing_ != fired_ && (solicited || (arm & VRDMA_CQ_ARM_SOLICITED) == 0);
}

Result<GuestBuffer> CompletionQueue::resize(GuestBuffer buffer, std::uint32_t depth) noexcept {
    const std::uint32_t left = producer_ - load_acquire(control().consumer);
    if (failed_ || left > std::min(depth_, depth)) {
        return fail(std::errc::invalid_argument);
    }
    consumer_ = producer_ - left;
    depth_ = depth;
    std::swap(buffer_, buffer);
    store_release(control().fired, fired_);
    return buffer;
}

bool CompletionQueue::has_enough() const noexcept {
    return moderation_.count > 1 ? producer_ - reported_ >= moderation_.count
                                 : moderation_.period_us == 0;
}

void CompletionQueue::event_written() noexcept {
    reported_ = producer_;
    if (format_ == QueueFormat::pvrdma) {
        arm_ = Arm::nothing;
        return;
    }
    fired_ = firing_;
    store_release(control().fired, fired_);
}

CqState CompletionQueue::save() const noexcept {
    return {.producer = producer_,
            .fired = format_ == QueueFormat::pvrdma ? save_requests() : fired_,
            .error = failed_ ? 1u : 0u,
            .events = (completion_event.pending != 0 ? CqState::completion_waits : 0) |
                      (error_event.pending != 0 ? CqState::error_waits : 0)};
}

std::uint32_t CompletionQueue::save_requests() const noexcept {
    const std::uint32_t new_ones = std::min(producer_ - reported_, untaken());
    return (uses_events_ ? CqState::uses_events : 0) | (arm_ == Arm::any ? CqState::wants_any : 0) |
           (arm_ == Arm::solicited ? CqState::wants_solicited : 0) |
           VRDMA_SET(CqState::new_entries, new_ones);
}

Result<> CompletionQueue::restore(const CqState& state, bool loses_requests) noexcept {
    if (state.error > 1 ||
        (state.events & ~(CqState::completion_waits | CqState::error_waits)) != 0) {
        return fail(std::errc::invalid_argument);
    }
    producer_ = state.producer;
    reported_ = state.producer;
    consumer_ = state.producer - depth_; // makes the next push read the guest's index
    failed_ = state.error != 0;
    if (format_ == QueueFormat::pvrdma) {
        return restore_requests(state.fired, loses_requests);
    }
    fired_ = state.fired;
    return (state.fired & ~VRDMA_CQ_ARM_SEQUENCE) == 0 ? Result<>{}
                                                       : fail(std::errc::invalid_argument);
}

// It is not known which of the new entries were solicited, so all count as that.
Result<> CompletionQueue::restore_requests(std::uint32_t saved, bool loses_requests) noexcept {
    constexpr std::uint32_t wishes = CqState::wants_any | CqState::wants_solicited;
    const std::uint32_t wish = saved & wishes;
    if ((saved & ~(CqState::uses_events | wishes | CqState::new_entries)) != 0 || wish == wishes ||
        (wish != 0 && (saved & CqState::uses_events) == 0)) {
        return fail(std::errc::invalid_argument);
    }
    uses_events_ = (saved & CqState::uses_events) != 0;
    last_solicited_ = producer_;
    if (loses_requests) {
        reported_ = producer_ - depth_;
        arm_ = uses_events_ ? Arm::any : Arm::nothing;
        return {};
    }
    reported_ = producer_ - VRDMA_GET(CqState::new_entries, saved);
    arm_ = wish == CqState::wants_any ? Arm::any : wish != 0 ? Arm::solicited : Arm::nothing;
    return {};
}

} // namespace vrdma::hca::soft
