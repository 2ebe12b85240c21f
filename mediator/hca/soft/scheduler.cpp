// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/scheduler.h"

#include <algorithm>

#include "mediator/hca/soft/slice_core.h"

namespace vrdma::hca::soft {

Scheduler::Scheduler(const Config& config)
    : hot_limit_{config.hot_queues}, hot_idle_{config.hot_idle}, now_{Clock::now()} {
    hot_.reserve(hot_limit_);
}

void Scheduler::reserve(std::size_t queue_pairs) {
    timers_.reserve(queue_pairs);
}

void Scheduler::wake(QueuePair& qp) noexcept {
    const bool waits = qp.timer.place != Timer::unset;
    const bool sends = qp.may_send() && qp.sq.depth() != 0;
    if (qp.attention != Attention::cold || waits || qp.slice.halted() || !(sends || qp.flushes())) {
        return;
    }
    if (sends && (hot_.size() < hot_limit_ || make_room())) {
        heat(qp);
    } else {
        qp.attention = Attention::ready;
        ready_.push_back(qp);
    }
}

void Scheduler::withdraw(QueuePair& qp) noexcept {
    if (qp.attention == Attention::hot) {
        cool(qp);
    } else {
        ready_.remove(qp);
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
}

void Scheduler::cool_all() noexcept {
    for (std::size_t i = hot_.size(); i > 0; --i) {
        cool_if_idle(*hot_[i - 1]);
    }
}

void Scheduler::heat(QueuePair& qp) noexcept {
    qp.attention = Attention::hot;
    qp.active = now_;
    hot_.push_back(&qp);
    store_relaxed(qp.control().sq_polled, 1u);
}

// What is posted from here on is told by the doorbell; what was posted before, a look after this
// finds.
void Scheduler::cool(QueuePair& qp) noexcept {
    qp.attention = Attention::cold;
    *std::find(hot_.begin(), hot_.end(), &qp) = hot_.back();
    hot_.pop_back();
    store_relaxed(qp.control().sq_polled, 0u);
    full_fence();
}

void Scheduler::cool_if_idle(QueuePair& qp) noexcept {
    cool(qp);
    if (qp.sq.peek() != 0 && !qp.waits_for_parcel()) { // a parcel that comes back wakes it
        heat(qp);
    }
}

// Cools the hot QP that has been quiet longest, if it was quiet for some time at all.
bool Scheduler::make_room() noexcept {
    constexpr std::chrono::microseconds quiet{20};
    const auto longest = std::min_element(
        hot_.begin(), hot_.end(),
        [](const QueuePair* a, const QueuePair* b) { return a->active < b->active; });
    if (longest == hot_.end() || now_ - (*longest)->active < quiet) {
        return false;
    }
    cool_if_idle(**longest);
    return hot_.size() < hot_limit_;
}

} // namespace vrdma::hca::soft
