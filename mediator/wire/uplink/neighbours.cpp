// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/wire/uplink/neighbours.h"

#include <linux/rtnetlink.h>
#include <sys/timerfd.h>

#include <set>

#include "mediator/base/errno.h"
#include "mediator/wire/derived_mac.h"
#include "mediator/wire/uplink/link.h"
#include "mediator/wire/uplink/route.h"

namespace vrdma::wire {
namespace {

constexpr std::chrono::milliseconds tick{250};

} // namespace

Result<std::unique_ptr<Neighbours>> Neighbours::create(EventLoop& loop,
                                                       const std::string& interface) {
    const auto link = read_link(interface);
    if (!link) {
        return fail(link.error());
    }
    auto tables = Netlink::create();
    auto events = Netlink::create();
    if (!tables || !events) {
        return fail(!tables ? tables.error() : events.error());
    }
    if (auto subscribed = events->subscribe(RTNLGRP_NEIGH); !subscribed) {
        return fail(subscribed.error());
    }
    UniqueFd timer{::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)};
    if (!timer) {
        return fail_errno();
    }
    std::unique_ptr<Neighbours> neighbours{
        new Neighbours{link->index, std::move(*tables), std::move(*events), std::move(timer)}};
    if (auto watched = neighbours->watch(loop); !watched) {
        return fail(watched.error());
    }
    return neighbours;
}

Neighbours::Neighbours(int link_index, Netlink tables, Netlink events, UniqueFd timer)
    : link_index_{link_index},
      tables_{std::move(tables)},
      events_{std::move(events)},
      timer_{std::move(timer)} {}

Result<> Neighbours::watch(EventLoop& loop) {
    auto events = loop.watch(events_.fd(), [this](std::uint32_t) { on_events(); });
    auto timer = loop.watch(timer_.get(), [this](std::uint32_t) { on_timer(); });
    if (!events || !timer) {
        return fail(!events ? events.error() : timer.error());
    }
    events_watch_ = std::move(*events);
    timer_watch_ = std::move(*timer);
    return {};
}

Neighbours::Question Neighbours::resolve(const Gid& source, const Gid& target, Receiver receiver) {
    if (const auto mac = derived_mac(target)) {
        receiver(*mac);
        return {};
    }
    const int link_index = addressed_link(tables_, link_index_);
    const auto hop = next_hop(tables_, link_index, source, target);
    if (!hop) {
        receiver(fail(hop.error()));
        return {};
    }
    const auto known = read_neighbour(tables_, link_index, *hop);
    if (!known) {
        receiver(fail(known.error()));
        return {};
    }
    if (!known->mac && waiting_.size() == max_waiting) {
        receiver(fail(std::errc::resource_unavailable_try_again));
        return {};
    }
    if (!known->confirmed) {
        if (auto asked = ask_for_neighbour(tables_, link_index, *hop); !asked) {
            receiver(fail(asked.error()));
            return {};
        }
    }
    if (known->mac) { // perhaps an old one, which is used while the kernel asks
        receiver(*known->mac);
        return {};
    }
    if (waiting_.empty()) {
        set_timer(tick);
    }
    const Key key{*hop, next_number_++};
    waiting_.emplace(key, Waiting{link_index, std::move(receiver), Clock::now() + answer_timeout});
    return Question{this, key};
}

// An event may be older than a question about the same neighbour, so the table is asked.
void Neighbours::on_events() {
    std::set<Gid> changed;
    const auto received = events_.receive([&](nlmsghdr* message) {
        if (const auto neighbour = parse_neighbour(message)) {
            changed.insert(neighbour->address);
        }
    });
    if (!received) { // some events were lost
        for (const auto& [key, waiting] : waiting_) {
            changed.insert(key.next_hop);
        }
    }
    for (const Gid& next_hop : changed) {
        look_at(next_hop);
    }
}

void Neighbours::look_at(const Gid& next_hop) {
    const auto first = waiting_.lower_bound(Key{next_hop, 0});
    if (first == waiting_.end() || first->first.next_hop != next_hop) {
        return;
    }
    const auto neighbour = read_neighbour(tables_, first->second.link_index, next_hop);
    if (neighbour && neighbour->mac) {
        answer(next_hop, *neighbour->mac);
    } else if (!neighbour || neighbour->failed) {
        answer(next_hop, fail(std::errc::host_unreachable));
    }
}

// Answers those that wait now. Receivers may ask anew, and end each other's questions.
void Neighbours::answer(const Gid& next_hop, const Result<Mac>& answer) {
    const std::uint64_t end = next_number_;
    auto next = waiting_.lower_bound(Key{next_hop, 0});
    while (next != waiting_.end() && next->first < Key{next_hop, end}) {
        const Key key = next->first;
        const auto waiting = waiting_.extract(next);
        waiting.mapped().receiver(answer);
        next = waiting_.upper_bound(key);
    }
}

void Neighbours::on_timer() {
    std::uint64_t ticks = 0;
    (void)::read(timer_.get(), &ticks, sizeof(ticks));
    const auto now = Clock::now();
    for (auto next = waiting_.begin(); next != waiting_.end();) {
        const Key key = next->first;
        if (next->second.deadline <= now) {
            const auto waiting = waiting_.extract(next);
            waiting.mapped().receiver(fail(std::errc::host_unreachable));
        }
        next = waiting_.upper_bound(key);
    }
    if (waiting_.empty()) {
        set_timer({});
    }
}

void Neighbours::set_timer(std::chrono::milliseconds period) {
    const timespec time{0, std::chrono::nanoseconds{period}.count()};
    const itimerspec setting{time, time};
    ::timerfd_settime(timer_.get(), 0, &setting, nullptr);
}

} // namespace vrdma::wire
