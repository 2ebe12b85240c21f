// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/slice/scheduler.h"

#include <algorithm>
#include <cassert>

#include "mediator/hca/soft/slice/slice_core.h"

namespace vrdma::hca::soft {

Scheduler::Scheduler(const Config& config)
    : hot_limit_{config.hot_queues},
      hot_idle_{config.hot_idle},
      lone_turn_{config.turn_bytes},
      shared_turn_{std::min(config.turn_bytes, config.shared_turn_bytes)},
      turn_{config.turn_bytes},
      now_{Clock::now()} {}

void Scheduler::reserve(std::size_t queue_pairs) {
    timers_.reserve(queue_pairs);
}

void Scheduler::add(RunQueue& queue) {
    queue.hot.reserve(hot_limit_);
    suspended_.reserve(slices_ + 1);
    if (queue.account.limited()) {
        limited_.push_back(&queue);
    }
    ++slices_;
}

void Scheduler::remove(RunQueue& queue) noexcept {
    assert(queue.empty());
    queues_.remove(queue);
    suspended_.cancel(queue);
    std::erase(limited_, &queue);
    --slices_;
}

void Scheduler::activate(RunQueue& queue) noexcept {
    if (!queue.hook.linked && queue.timer.place == Timer::unset) {
        queues_.push_back(queue);
    }
}

// The slice's hot QPs leave their places to others. They become ready, so that the slice looks at
// all of them when it continues.
void Scheduler::suspend(RunQueue& queue, Clock::time_point until) noexcept {
    while (!queue.hot.empty()) {
        QueuePair& qp = *queue.hot.back();
        cool(queue, qp);
        qp.attention = Attention::ready;
        queue.ready.push_back(qp);
    }
    queues_.remove(queue);
    suspended_.cancel(queue);
    suspended_.set(queue, until);
}

void Scheduler::set_share(RunQueue& queue, const Share& share) noexcept {
    queue.account.set_share(share, now_);
    apply_limits(queue);
}

void Scheduler::set_pace(RunQueue& queue, std::uint64_t bytes_per_second) noexcept {
    queue.account.set_pace(bytes_per_second, now_);
    apply_limits(queue);
}

void Scheduler::apply_limits(RunQueue& queue) noexcept {
    std::erase(limited_, &queue);
    if (queue.account.limited()) {
        limited_.push_back(&queue);
    }
    suspended_.cancel(queue);
    activate(queue);
}

// Ends a slice's turn. `has_work`: it did something, or would have.
void Scheduler::pass_on(RunQueue& queue, bool has_work) noexcept {
    if (has_work) {
        heaviest_so_far_ = std::max(heaviest_so_far_, queue.account.weight());
    }
    if (unseen_ <= 1) {
        heaviest_ = heaviest_so_far_;
        heaviest_so_far_ = 0;
        unseen_ = queues_.size();
    } else {
        --unseen_;
    }
    if (queue.account.limited() && queue.account.open() > now_) {
        suspend(queue, queue.account.open()); // even if it is empty: new work must wait, too
    } else if (queue.empty()) {
        queues_.remove(queue);
    } else if (queues_.size() > 1) {
        queues_.remove(queue);
        queues_.push_back(queue);
    }
}

// The doorbell may have rung for receive WQEs.
void Scheduler::wake(QueuePair& qp) noexcept {
    if (qp.connection != nullptr && qp.connection->takes_receives_early() && !qp.slice.halted()) {
        qp.connection->look_for_receives();
    }
    const bool waits = qp.timer.place != Timer::unset;
    const bool sends = qp.may_send() && qp.sq.depth() != 0;
    if (qp.attention != Attention::cold || waits || qp.slice.halted() || !(sends || qp.flushes())) {
        return;
    }
    RunQueue& queue = qp.slice.run_queue();
    const bool suspended = queue.timer.place != Timer::unset;
    if (sends && !suspended && (hot_ < hot_limit_ || make_room(queue))) {
        heat(queue, qp);
    } else {
        qp.attention = Attention::ready;
        queue.ready.push_back(qp);
    }
    activate(queue);
}

void Scheduler::withdraw(QueuePair& qp) noexcept {
    RunQueue& queue = qp.slice.run_queue();
    if (qp.attention == Attention::hot) {
        cool(queue, qp);
    } else {
        queue.ready.remove(qp);
        qp.attention = Attention::cold;
    }
    timers_.cancel(qp);
}

void Scheduler::wait_until(QueuePair& qp, Clock::time_point deadline) noexcept {
    withdraw(qp);
    timers_.set(qp, deadline);
}

void Scheduler::expire() noexcept {
    while (QueuePair* qp = timers_.pop_due(now_)) {
        wake(*qp);
    }
    while (RunQueue* queue = suspended_.pop_due(now_)) {
        activate(*queue);
    }
    for (RunQueue* queue : limited_) {
        queue->account.settle_billed(now_);
    }
}

Clock::time_point Scheduler::deadline() const noexcept {
    constexpr auto next = [](const auto& timers) {
        return timers.empty() ? Clock::time_point::max() : timers.next();
    };
    return std::min(next(timers_), next(suspended_));
}

void Scheduler::cool_all() noexcept {
    for (RunQueue* queue = queues_.front(); queue != nullptr; queue = queues_.after(*queue)) {
        for (std::size_t i = queue->hot.size(); i > 0; --i) {
            cool_if_idle(*queue, *queue->hot[i - 1]);
        }
    }
}

bool Scheduler::anything_to_do() const noexcept {
    const RunQueue* queue = queues_.front();
    while (queue != nullptr && queue->empty()) {
        queue = queues_.after(*queue);
    }
    return queue != nullptr;
}

void Scheduler::heat(RunQueue& queue, QueuePair& qp) noexcept {
    qp.attention = Attention::hot;
    qp.active = now_;
    queue.hot.push_back(&qp);
    ++hot_;
    if (qp.has_control()) {
        store_relaxed(qp.control().sq_polled, 1u);
    }
}

// Later WQEs are reported by the doorbell. Earlier ones are found by a look after this call.
void Scheduler::cool(RunQueue& queue, QueuePair& qp) noexcept {
    qp.attention = Attention::cold;
    *std::find(queue.hot.begin(), queue.hot.end(), &qp) = queue.hot.back();
    queue.hot.pop_back();
    --hot_;
    if (qp.has_control()) {
        store_relaxed(qp.control().sq_polled, 0u);
    }
    full_fence();
}

void Scheduler::cool_if_idle(RunQueue& queue, QueuePair& qp) noexcept {
    cool(queue, qp);
    // A returning cross-poller request wakes the QP.
    if (qp.sq.peek() != 0 && !qp.waits_for_cross_request()) {
        heat(queue, qp);
    }
}

// The slice with the most places for hot QPs gives one to a slice with fewer. A slice that has the
// most itself gets a place by cooling one of its own QPs.
bool Scheduler::make_room(RunQueue& queue) noexcept {
    RunQueue* most = &queue;
    for (RunQueue* other = queues_.front(); other != nullptr; other = queues_.after(*other)) {
        most = other->hot.size() > most->hot.size() ? other : most;
    }
    return take_place(most->hot.size() > queue.hot.size() + 1 ? *most : queue, queue);
}

// Takes the place of the hot QP that has been idle longest. A slice takes the place of its own QP
// only if that was idle for some time at all.
bool Scheduler::take_place(RunQueue& from, const RunQueue& to) noexcept {
    constexpr std::chrono::microseconds quiet{20};
    const auto longest = std::ranges::min_element(from.hot, {}, &QueuePair::active);
    if (longest == from.hot.end() || (&from == &to && now_ - (*longest)->active < quiet)) {
        return false;
    }
    QueuePair& qp = **longest;
    cool(from, qp);
    if (qp.sq.peek() != 0 && !qp.waits_for_cross_request()) {
        qp.attention = Attention::ready;
        from.ready.push_back(qp);
    }
    return true;
}

} // namespace vrdma::hca::soft
