// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// What an administrator may tune. The defaults suit a host whose cores guests and pollers share.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace vrdma::hca::soft {

using Clock = std::chrono::steady_clock;

// How long a poller that finds nothing goes on looking before it sleeps (see spin_policy.h). On a
// host with a core to spare for each poller set both to seconds: latency is best while awake.
struct PollPolicy {
    std::chrono::microseconds spin_min{0};
    std::chrono::microseconds spin_max{50};
};

struct Config {
    unsigned pollers = 1;
    // Without threads the caller's thread is the poller: see SoftHca::poll(). For tests and
    // fuzzers.
    bool threads = true;
    // What each poller's thread does first.
    std::function<void()> on_start;
    PollPolicy poll;
    int realtime_priority = 1; // of pollers, under SCHED_FIFO; 0 for an ordinary thread

    // QPs whose next WQE a poller looks at in each round, without being told. Each costs a cache
    // hit a round, so beyond some tens a doorbell is cheaper.
    std::size_t hot_queues = 64;
    std::chrono::microseconds hot_idle{500}; // a hot QP quiet for so long is left to its doorbell

    // What the network has taken is not taken for lost before so long, whatever a peer is used to:
    // whom a scheduler takes the processor from is not gone.
    std::chrono::nanoseconds least_patience = std::chrono::milliseconds{1};

    // What one QP may do before the others of its device have their turn.
    unsigned turn_wqes = 64;
    // What a device may do before the others have their turn, and the most that is moved of one
    // message without a look at anything else: where nobody else has work, and where others do.
    std::uint64_t turn_bytes = 64ull * 1024;
    std::uint64_t shared_turn_bytes = 32ull * 1024;
};

} // namespace vrdma::hca::soft
