// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/exchange.h"

#include "mediator/hca/soft/datagram.h"
#include "mediator/hca/soft/engine.h"
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
    if (idle_.empty()) {
        waiting_.push_back(sender);
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
    sender.parcel = &parcel;
    ++out_[generation_];
    Exchange& there = to.engine().exchange();
    there.link_from(*this).requests.push(parcel);
    there.wake_();
    return true;
}

void Exchange::abandon(QueuePair& sender) noexcept {
    waiting_.remove(sender);
    if (sender.parcel != nullptr) {
        sender.parcel->sender = nullptr;
        sender.parcel = nullptr;
    }
}

bool Exchange::serve() noexcept {
    constexpr int most = 16; // of each kind, before QPs have their turn
    bool served = false;
    for (const auto& link : links_) {
        if (!link) {
            continue;
        }
        Parcel* parcel = nullptr;
        for (int i = 0; i < most && (parcel = link->requests.pop()) != nullptr; ++i) {
            execute(*parcel);
            link->other->link_from(*this).answers.push(*parcel);
            link->other->wake_();
            served = true;
        }
        for (int i = 0; i < most && (parcel = link->answers.pop()) != nullptr; ++i) {
            take_back(*parcel);
            served = true;
        }
    }
    return served;
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
        parcel.ack = is_multicast(parcel.route.target.gid)
                         ? receive_multicast(*parcel.to, parcel.route, request)
                         : receive_datagram(*parcel.to, parcel.route, request);
        return;
    }
    QueuePair* const listener = find_listener(*parcel.to, parcel.route);
    parcel.ack = listener != nullptr ? receive(*listener, request) : Ack{AckStatus::no_answer};
}

// On the poller that lent it.
void Exchange::take_back(Parcel& parcel) noexcept {
    QueuePair* const sender = parcel.sender;
    if (sender != nullptr) {
        sender->parcel = nullptr;
        conclude(*sender, parcel.request(), parcel.ack);
        sender->slice.engine().scheduler().wake(*sender);
    }
    --out_[parcel.generation];
    idle_.push_back(&parcel);
    serve_waiting();
}

// In the order in which they came, and before any other QP finds the parcel.
void Exchange::serve_waiting() noexcept {
    while (!idle_.empty() && !waiting_.empty()) {
        QueuePair& next = *waiting_.pop_front();
        if (!next.slice.halted()) { // else it is woken with its slice
            send_messages(next);
            next.slice.engine().scheduler().wake(next);
        }
    }
}

} // namespace vrdma::hca::soft
