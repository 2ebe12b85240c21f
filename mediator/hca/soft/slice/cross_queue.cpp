// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/slice/cross_queue.h"

#include <algorithm>

#include "mediator/hca/soft/common/hole_count.h"
#include "mediator/hca/soft/slice/engine.h"

namespace vrdma::hca::soft {

void CrossQueue::SpscRing::push(CrossRequest& lent) noexcept {
    slots_[in_++ % max_requests].store(&lent, std::memory_order_release);
}

CrossRequest* CrossQueue::SpscRing::pop() noexcept {
    auto& slot = slots_[out_ % max_requests];
    CrossRequest* const lent = slot.load(std::memory_order_acquire);
    if (lent != nullptr) {
        slot.store(nullptr, std::memory_order_relaxed);
        ++out_;
    }
    return lent;
}

bool CrossQueue::SpscRing::empty() const noexcept {
    return slots_[out_ % max_requests].load(std::memory_order_acquire) == nullptr;
}

void CrossQueue::connect(std::span<CrossQueue* const> all) {
    for (std::size_t i = 0; i < all.size(); ++i) {
        CrossQueue& queue = *all[i];
        queue.index_ = i;
        for (CrossQueue* other : all) {
            queue.channels_.push_back(other != &queue ? std::make_unique<Channel>() : nullptr);
            if (other != &queue) {
                queue.channels_.back()->other = other;
            }
        }
        for (std::size_t n = 0; all.size() > 1 && n < max_requests; ++n) {
            queue.owned_.push_back(std::make_unique<CrossRequest>());
            queue.idle_.push_back(queue.owned_.back().get());
        }
    }
}

bool CrossQueue::send(QueuePair& sender, const Request& request, const Route& route,
                      SliceCore& to) noexcept {
    RunQueue& queue = sender.slice.run_queue();
    if (idle_.empty() || queue.lent >= max_lent) {
        queue.want_cross_requests.push_back(sender);
        if (!queue.awaits_cross_requests.linked) {
            waiting_.push_back(queue);
        }
        return false;
    }
    CrossRequest& lent = *idle_.back();
    idle_.pop_back();
    lent.message = request.message;
    lent.route = route;
    lent.payload = request.payload;
    lent.offset = request.offset;
    lent.from = request.from;
    lent.to = &to;
    lent.sender = &sender;
    lent.generation = generation_;
    lent.cost = request.payload.bytes() + Account::operation_cost;
    lent.receivers = 0;
    lent.holes = 0;
    queue.lent += lent.cost;
    sender.cross_request = &lent;
    ++out_[generation_];
    CrossQueue& there = to.engine().cross_queue();
    there.channel_from(*this).requests.push(lent);
    there.wake_();
    return true;
}

void CrossQueue::abandon(QueuePair& sender) noexcept {
    sender.slice.run_queue().want_cross_requests.remove(sender);
    if (sender.cross_request != nullptr) {
        sender.cross_request->sender = nullptr;
        sender.cross_request = nullptr;
    }
}

bool CrossQueue::serve(Handler& handler) noexcept {
    constexpr int most = 16; // before QPs have their turn
    bool served = false;
    for (const auto& channel : channels_) {
        if (!channel) {
            continue;
        }
        served |= execute_some(*channel, handler);
        CrossRequest* lent = nullptr;
        for (int i = 0; i < most && (lent = channel->answers.pop()) != nullptr; ++i) {
            take_back(*lent, handler);
            served = true;
        }
    }
    return serve_waiting(handler) || served;
}

// Executes one turn's worth of requests of the other poller.
bool CrossQueue::execute_some(Channel& channel, Handler& handler) noexcept {
    constexpr std::uint64_t most = 32 << 10;
    CrossRequest* lent = nullptr;
    std::uint64_t cost = 0;
    HoleCount holes;
    while (cost < most && (lent = channel.requests.pop()) != nullptr) {
        handler.execute(*lent);
        cost += lent->cost * std::max(1u, lent->receivers);
        if (holes.any()) [[unlikely]] {
            lent->holes = holes.take();
            cost += lent->holes * Account::hole_cost;
        }
        channel.other->channel_from(*this).answers.push(*lent);
        channel.other->wake_();
    }
    return cost != 0;
}

bool CrossQueue::pending() const noexcept {
    for (const auto& channel : channels_) {
        if (channel && !(channel->requests.empty() && channel->answers.empty())) {
            return true;
        }
    }
    return false;
}

unsigned CrossQueue::begin_drain() noexcept {
    const unsigned generation = generation_;
    generation_ ^= 1;
    return generation;
}

// Runs on the poller that lent the cross-poller request.
void CrossQueue::take_back(CrossRequest& lent, Handler& handler) noexcept {
    QueuePair* const sender = lent.sender;
    RunQueue& queue = lent.from->run_queue();
    queue.lent -= lent.cost;
    if (lent.receivers > 1) { // the first is charged already
        const unsigned others = lent.receivers - 1;
        queue.account.charge(others * lent.payload.bytes(), others);
    }
    if (lent.holes != 0) [[unlikely]] {
        queue.account.charge_holes(lent.holes, lent.from->engine().now());
    }
    if (sender != nullptr) {
        sender->cross_request = nullptr;
        handler.conclude(*sender, lent);
        sender->slice.engine().scheduler().wake(*sender);
    }
    --out_[lent.generation];
    idle_.push_back(&lent);
    serve_waiting(handler);
}

// Serves one QP of each waiting slice that may have a cross-poller request, in the order of their
// arrival.
bool CrossQueue::serve_waiting(Handler& handler) noexcept {
    bool served = false;
    for (std::size_t left = waiting_.size(); left > 0 && !idle_.empty(); --left) {
        RunQueue& queue = *waiting_.pop_front();
        QueuePair* const next =
            queue.lent < max_lent ? queue.want_cross_requests.pop_front() : nullptr;
        if (next != nullptr && !next->slice.halted()) { // else it is woken with its slice
            handler.resume(*next);
            next->slice.engine().scheduler().wake(*next);
        }
        served |= next != nullptr;
        if (!queue.want_cross_requests.empty() && !queue.awaits_cross_requests.linked) {
            waiting_.push_back(queue);
        }
    }
    return served;
}

} // namespace vrdma::hca::soft
