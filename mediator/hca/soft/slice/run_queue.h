// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A slice's account, and its work that waits at its poller: the QPs that have the poller's
// attention, and those that want to reach another poller. They take turns among themselves. If the
// slice's turn ends early, its next turn continues there.
#pragma once

#include "mediator/hca/soft/common/account.h"
#include "mediator/hca/soft/slice/queue_pair.h"

namespace vrdma::hca::soft {

struct alignas(cache_line) RunQueue {
    explicit RunQueue(const Share& share) : account{share} {}

    bool empty() const noexcept { return hot.empty() && ready.empty(); }

    Account account;
    LineVector<QueuePair*> hot;
    List<QueuePair, &QueuePair::ready> ready;
    std::size_t next_hot = 0;    // QPs that still have their turn: first these,
    std::size_t ready_turns = 0; // then so many of the ready ones
    ListHook<RunQueue> hook;     // while it takes part in rounds
    Timer timer;                 // or when it will do so again

    // See cross_queue.h.
    List<QueuePair, &QueuePair::wants_cross_request> want_cross_requests;
    std::uint64_t lent = 0; // cost of the pieces that are with other pollers
    ListHook<RunQueue> awaits_cross_requests;
};

} // namespace vrdma::hca::soft
