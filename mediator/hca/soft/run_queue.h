// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// What waits of a slice at its poller, and its account: the QPs that have the poller's attention,
// those that want to reach another poller, and connections that have something to answer. They take
// turns among themselves; a turn of the slice's that ends early is gone on with in the next.
#pragma once

#include "mediator/hca/soft/account.h"
#include "mediator/hca/soft/queue_pair.h"
#include "mediator/hca/soft/roce/connection.h"
#include "mediator/hca/soft/roce/questions.h"

namespace vrdma::hca::soft {

struct alignas(cache_line) RunQueue {
    explicit RunQueue(const Share& share) : account{share} {}

    bool empty() const noexcept { return hot.empty() && ready.empty(); }

    Account account;
    LineVector<QueuePair*> hot;
    List<QueuePair, &QueuePair::ready> ready;
    std::size_t next_hot = 0;    // of those that still have their turn: first these,
    std::size_t ready_turns = 0; // then so many of the ready ones
    Link<RunQueue> link;         // it takes part in rounds
    Timer timer;                 // or, from then on, does again

    // See exchange.h.
    List<QueuePair, &QueuePair::wants_parcel> want_parcels;
    std::uint64_t lent = 0; // what the pieces cost that are with other pollers
    Link<RunQueue> waits_for_parcels;

    // See roce/port.h.
    List<roce::Connection, &roce::Connection::answers> answers;
    Link<RunQueue> answering;
    roce::Questions questions;
};

} // namespace vrdma::hca::soft
