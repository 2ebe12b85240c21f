// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/wire/fabric/handover.h"

#include <algorithm>

namespace vrdma::wire::fabric {
namespace {

using Owner = std::unique_ptr<Connection>;

} // namespace

Result<std::shared_ptr<Handover>> Handover::create() {
    auto to_poller = EventFd::create();
    auto to_control = EventFd::create();
    if (!to_poller || !to_control) {
        return fail_errno();
    }
    return std::shared_ptr<Handover>{new Handover{std::move(*to_poller), std::move(*to_control)}};
}

Handover::~Handover() {
    for (Slot& slot : slots_) {
        const Owner offered{slot.connection.load()};
    }
    collect();
}

void Handover::offer(unsigned peer, Owner connection) {
    Slot& slot = slots_[peer];
    slot.withdrawn.store(false, std::memory_order_relaxed);
    slot.heard.store(0, std::memory_order_relaxed);
    ++slot.given;
    take_untaken(slot, connection.release());
    announce(peer);
}

void Handover::take_untaken(Slot& slot, Connection* instead) {
    const Owner untaken{slot.connection.exchange(instead, std::memory_order_acq_rel)};
    slot.given -= untaken != nullptr ? 1 : 0;
}

void Handover::withdraw(unsigned peer) {
    Slot& slot = slots_[peer];
    take_untaken(slot, nullptr);
    slot.withdrawn.store(true, std::memory_order_relaxed);
    announce(peer);
}

void Handover::say_alive(unsigned peer) {
    slots_[peer].say_alive.store(true, std::memory_order_relaxed);
    announce(peer);
}

void Handover::announce(unsigned peer) {
    slots_[peer].news.store(true, std::memory_order_release);
    peers_.store(std::max(peers_.load(std::memory_order_relaxed), peer + 1),
                 std::memory_order_release);
    to_poller_.signal();
}

std::uint64_t Handover::heard(unsigned peer) const noexcept {
    return slots_[peer].heard.load(std::memory_order_relaxed);
}

void Handover::collect() {
    to_control_.drain();
    for (Slot& slot : std::span{slots_}.first(peers_.load(std::memory_order_relaxed))) {
        Connection* back = slot.back.exchange(nullptr, std::memory_order_acquire);
        while (back != nullptr) {
            const Owner ends{back};
            back = back->next;
            --slot.given;
        }
    }
}

Handover::News Handover::take(Slot& slot) noexcept {
    return {Owner{slot.connection.exchange(nullptr, std::memory_order_acq_rel)},
            slot.withdrawn.exchange(false, std::memory_order_relaxed),
            slot.say_alive.exchange(false, std::memory_order_relaxed)};
}

void Handover::hand_back(unsigned peer, Owner connection) noexcept {
    Slot& slot = slots_[peer];
    Connection* const returned = connection.release();
    returned->next = slot.back.load(std::memory_order_relaxed);
    while (!slot.back.compare_exchange_weak(returned->next, returned, std::memory_order_release,
                                            std::memory_order_relaxed)) {
    }
    to_control_.signal();
}

} // namespace vrdma::wire::fabric
