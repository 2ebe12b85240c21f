// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Settings for the administrator. The defaults suit a host on which guests and pollers share cores.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace vrdma::hca::soft {

using Clock = std::chrono::steady_clock;

// The time for which a poller without work keeps looking for work before it sleeps (see
// spin_policy.h). On a host with a spare core for each poller, set both to seconds: an awake poller
// gives the best latency.
struct PollPolicy {
    std::chrono::microseconds spin_min{0};
    std::chrono::microseconds spin_max{50};
};

struct Config {
    unsigned pollers = 1;
    // Without threads, the caller's thread is the poller: see SoftHca::poll(). For tests and
    // fuzzers.
    bool threads = true;
    // Each poller's thread calls it first.
    std::function<void()> on_start;
    // Executes a call in the process to which the pollers' threads are to belong. Without it, that
    // is the caller's process.
    std::function<void(const std::function<void()>&)> in_process;
    PollPolicy poll;
    int realtime_priority = 1; // of pollers, under SCHED_FIFO; 0 for an ordinary thread

    // The maximum number of hot QPs. The poller reads their next WQE in each round, without a
    // doorbell. Each costs a cache hit per round, so beyond some tens a doorbell is cheaper.
    std::size_t hot_queues = 64;
    std::chrono::microseconds hot_idle{500}; // an idle hot QP then needs its doorbell again

    // A packet on the network does not count as lost before this time, however fast its peer
    // usually answers: a peer that was preempted is not gone.
    std::chrono::nanoseconds min_rto = std::chrono::milliseconds{1};

    // The number of WQEs that one QP may execute before the others of its device have their turn.
    unsigned turn_wqes = 64;
    // The number of bytes that a device may move before the other devices have their turn. This is
    // also the most that is moved of one message before the poller looks at anything else.
    // turn_bytes applies if no other device has work, shared_turn_bytes if one does.
    std::uint64_t turn_bytes = 64ull * 1024;
    std::uint64_t shared_turn_bytes = 32ull * 1024;
};

} // namespace vrdma::hca::soft
