// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/scheduler.h"

#include <algorithm>
#include <cassert>

#include "mediator/hca/soft/slice_core.h"

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
    if (!queue.link.linked && queue.timer.place == Timer::unset) {
        queues_.push_back(queue);
    }
}

// Its hot QPs leave their places to others. It looks at all of them when it goes on.
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
    std::erase(limited_, &queue);
    if (queue.account.limited()) {
        limited_.push_back(&queue);
    }
    suspended_.cancel(queue);
    activate(queue);
}

// Its turn is over; `has_work` if it did something, or would have.
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
        suspend(queue, queue.account.open()); // though it is empty: what comes next waits as well
    } else if (queue.empty()) {
        queues_.remove(queue);
    } else if (queues_.size() > 1) {
        queues_.remove(queue);
        queues_.push_back(queue);
    }
}

void Scheduler::wake(QueuePair& qp) noexcept {
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
    store_relaxed(qp.control().sq_polled, 1u);
}

// What is posted from here on is told by the doorbell; what was posted before, a look after this
// finds.
void Scheduler::cool(RunQueue& queue, QueuePair& qp) noexcept {
    qp.attention = Attention::cold;
    *std::find(queue.hot.begin(), queue.hot.end(), &qp) = queue.hot.back();
    queue.hot.pop_back();
    --hot_;
    store_relaxed(qp.control().sq_polled, 0u);
    full_fence();
}

void Scheduler::cool_if_idle(RunQueue& queue, QueuePair& qp) noexcept {
    cool(queue, qp);
    if (qp.sq.peek() != 0 && !qp.waits_for_parcel()) { // a parcel that comes back wakes it
        heat(queue, qp);
    }
}

// Who has the most places gives one away to who has less than that. Who has the most itself gets
// another by cooling one of its own.
bool Scheduler::make_room(RunQueue& queue) noexcept {
    RunQueue* most = &queue;
    for (RunQueue* other = queues_.front(); other != nullptr; other = queues_.after(*other)) {
        most = other->hot.size() > most->hot.size() ? other : most;
    }
    return take_place(most->hot.size() > queue.hot.size() + 1 ? *most : queue, queue);
}

// That of the hot QP which has been quiet longest; of one's own, only if it was quiet for some time
// at all.
bool Scheduler::take_place(RunQueue& from, const RunQueue& to) noexcept {
    constexpr std::chrono::microseconds quiet{20};
    const auto longest = std::ranges::min_element(from.hot, {}, &QueuePair::active);
    if (longest == from.hot.end() || (&from == &to && now_ - (*longest)->active < quiet)) {
        return false;
    }
    QueuePair& qp = **longest;
    cool(from, qp);
    if (qp.sq.peek() != 0 && !qp.waits_for_parcel()) {
        qp.attention = Attention::ready;
        from.ready.push_back(qp);
    }
    return true;
}

} // namespace vrdma::hca::soft
