// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/exchange.h"

#include <algorithm>

#include "mediator/hca/soft/datagram.h"
#include "mediator/hca/soft/engine.h"
#include "mediator/hca/soft/hole_count.h"
#include "mediator/hca/soft/peer.h"
#include "mediator/hca/soft/requester.h"
#include "mediator/hca/soft/responder.h"

namespace vrdma::hca::soft {

void Exchange::Lane::push(Parcel& parcel) noexcept {
    slots_[in_++ % parcels].store(&parcel, std::memory_order_release);
}

Parcel* Exchange::Lane::pop() noexcept {
    auto& slot = slots_[out_ % parcels];
    Parcel* const parcel = slot.load(std::memory_order_acquire);
    if (parcel != nullptr) {
        slot.store(nullptr, std::memory_order_relaxed);
        ++out_;
    }
    return parcel;
}

bool Exchange::Lane::empty() const noexcept {
    return slots_[out_ % parcels].load(std::memory_order_acquire) == nullptr;
}

void Exchange::connect(std::span<Exchange* const> all) {
    for (std::size_t i = 0; i < all.size(); ++i) {
        Exchange& exchange = *all[i];
        exchange.index_ = i;
        for (Exchange* other : all) {
            exchange.links_.push_back(other != &exchange ? std::make_unique<Link>() : nullptr);
            if (other != &exchange) {
                exchange.links_.back()->other = other;
            }
        }
        for (std::size_t n = 0; all.size() > 1 && n < parcels; ++n) {
            exchange.owned_.push_back(std::make_unique<Parcel>());
            exchange.idle_.push_back(exchange.owned_.back().get());
        }
    }
}

bool Exchange::send(QueuePair& sender, const Request& request, const Route& route,
                    SliceCore& to) noexcept {
    RunQueue& queue = sender.slice.run_queue();
    if (idle_.empty() || queue.lent >= most_lent) {
        queue.want_parcels.push_back(sender);
        if (!queue.waits_for_parcels.linked) {
            waiting_.push_back(queue);
        }
        return false;
    }
    Parcel& parcel = *idle_.back();
    idle_.pop_back();
    parcel.message = request.message;
    parcel.route = route;
    parcel.payload = request.payload;
    parcel.offset = request.offset;
    parcel.from = request.from;
    parcel.to = &to;
    parcel.sender = &sender;
    parcel.generation = generation_;
    parcel.cost = request.payload.bytes() + Account::operation_cost;
    parcel.receivers = 0;
    parcel.holes = 0;
    queue.lent += parcel.cost;
    sender.parcel = &parcel;
    ++out_[generation_];
    Exchange& there = to.engine().exchange();
    there.link_from(*this).requests.push(parcel);
    there.wake_();
    return true;
}

void Exchange::abandon(QueuePair& sender) noexcept {
    sender.slice.run_queue().want_parcels.remove(sender);
    if (sender.parcel != nullptr) {
        sender.parcel->sender = nullptr;
        sender.parcel = nullptr;
    }
}

bool Exchange::serve() noexcept {
    constexpr int most = 16; // before QPs have their turn
    bool served = false;
    for (const auto& link : links_) {
        if (!link) {
            continue;
        }
        served |= execute_some(*link);
        Parcel* parcel = nullptr;
        for (int i = 0; i < most && (parcel = link->answers.pop()) != nullptr; ++i) {
            take_back(*parcel);
            served = true;
        }
    }
    return serve_waiting() || served;
}

// One turn's worth for each poller that asks.
bool Exchange::execute_some(Link& link) noexcept {
    constexpr std::uint64_t most = 32 << 10;
    Parcel* parcel = nullptr;
    std::uint64_t cost = 0;
    HoleCount holes;
    while (cost < most && (parcel = link.requests.pop()) != nullptr) {
        execute(*parcel);
        cost += parcel->cost * std::max(1u, parcel->receivers);
        if (holes.any()) [[unlikely]] {
            parcel->holes = holes.take();
            cost += parcel->holes * Account::hole_cost;
        }
        link.other->link_from(*this).answers.push(*parcel);
        link.other->wake_();
    }
    return cost != 0;
}

bool Exchange::pending() const noexcept {
    for (const auto& link : links_) {
        if (link && !(link->requests.empty() && link->answers.empty())) {
            return true;
        }
    }
    return false;
}

unsigned Exchange::begin_drain() noexcept {
    const unsigned generation = generation_;
    generation_ ^= 1;
    return generation;
}

// On the poller of the slice that the parcel is for.
void Exchange::execute(Parcel& parcel) noexcept {
    const Request request = parcel.request();
    if (parcel.route.type == QpType::ud) {
        if (is_multicast(parcel.route.target.gid)) {
            parcel.receivers =
                static_cast<unsigned>(parcel.to->group(parcel.route.target.gid).size());
            parcel.ack = receive_multicast(*parcel.to, parcel.route, request);
        } else {
            parcel.ack = receive_datagram(*parcel.to, parcel.route, request);
        }
        return;
    }
    QueuePair* const listener = find_listener(*parcel.to, parcel.route);
    parcel.ack = listener != nullptr ? receive(*listener, request) : Ack{AckStatus::no_answer};
}

// On the poller that lent it.
void Exchange::take_back(Parcel& parcel) noexcept {
    QueuePair* const sender = parcel.sender;
    RunQueue& queue = parcel.from->run_queue();
    queue.lent -= parcel.cost;
    if (parcel.receivers > 1) { // the first is paid for
        const unsigned others = parcel.receivers - 1;
        queue.account.charge(others * parcel.payload.bytes(), others);
    }
    if (parcel.holes != 0) [[unlikely]] {
        queue.account.charge_holes(parcel.holes, parcel.from->engine().now());
    }
    if (sender != nullptr) {
        sender->parcel = nullptr;
        conclude(*sender, parcel.request(), parcel.ack);
        sender->slice.engine().scheduler().wake(*sender);
    }
    --out_[parcel.generation];
    idle_.push_back(&parcel);
    serve_waiting();
}

// A QP of each slice that waits and may have a parcel, in the order in which they came.
bool Exchange::serve_waiting() noexcept {
    bool served = false;
    for (std::size_t left = waiting_.size(); left > 0 && !idle_.empty(); --left) {
        RunQueue& queue = *waiting_.pop_front();
        QueuePair* const next = queue.lent < most_lent ? queue.want_parcels.pop_front() : nullptr;
        if (next != nullptr && !next->slice.halted()) { // else it is woken with its slice
            send_messages(*next);
            next->slice.engine().scheduler().wake(*next);
        }
        served |= next != nullptr;
        if (!queue.want_parcels.empty() && !queue.waits_for_parcels.linked) {
            waiting_.push_back(queue);
        }
    }
    return served;
}

} // namespace vrdma::hca::soft
