// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Who takes part in a measurement: the benchmark's thread plays both guests, the poller is the
// other thread. Each has a core of its own where there are two.
#pragma once

#include <chrono>
#include <vector>

#include "mediator/hca/soft/soft_hca.h"
#include "mediator/tests/guest/guest.h"

namespace vrdma::bench {

using Clock = std::chrono::steady_clock;

// The calling thread, and those it starts from now on, run on this core.
void pin_to_core(unsigned core);
void pin_to_any_core();

inline constexpr unsigned guest_core = 0;
inline constexpr unsigned poller_core = 1;

// A thread that copies a word from one cache line to another as soon as it changes: what any third
// party between two guests has to do at least. It takes no time while stopped.
class Relay {
  public:
    Relay();
    Relay(const Relay&) = delete;
    Relay& operator=(const Relay&) = delete;
    ~Relay();

    // From the writing party to the reading one, through the relay: two line transfers.
    void pass(std::uint64_t value);

  private:
    struct alignas(128) Line {
        std::atomic<std::uint64_t> word{0};
    };

    Line in_;
    Line out_;
    std::atomic<bool> stop_{false};
    std::thread thread_;
};

struct PairOptions {
    std::uint32_t idle_pairs = 0;
    std::uint64_t region_size = 1 << 20;
    unsigned pollers = 1; // with two, each guest has its own
};

// A soft HCA and a connected pair of QPs on it. Its pollers never sleep if there are cores enough.
class Pair {
  public:
    explicit Pair(const PairOptions& options = {});

    // An 8-byte inline WRITE from one side to the other; returns when its bytes are there.
    void ping(std::uint64_t value) { write_word(*a_qp_, b_mr_, value); }
    void pong(std::uint64_t value) { write_word(*b_qp_, a_mr_, value); }

    test::Guest& a() { return *a_; }
    test::Guest& b() { return *b_; }
    test::GuestQp& a_qp() { return *a_qp_; }
    test::GuestCq& a_cq() { return *a_cq_; }
    const test::MemoryRegion& a_mr() const { return a_mr_; }
    const test::MemoryRegion& b_mr() const { return b_mr_; }

  private:
    static void write_word(test::GuestQp& qp, const test::MemoryRegion& to, std::uint64_t value);
    void add_idle_pairs(std::uint32_t count);

    std::unique_ptr<hca::soft::SoftHca> hca_;
    std::unique_ptr<test::Guest> a_;
    std::unique_ptr<test::Guest> b_;
    std::unique_ptr<test::GuestCq> a_cq_;
    std::unique_ptr<test::GuestCq> b_cq_;
    std::unique_ptr<test::GuestQp> a_qp_;
    std::unique_ptr<test::GuestQp> b_qp_;
    test::MemoryRegion a_mr_;
    test::MemoryRegion b_mr_;
};

// Short samples, of which the tenth percentile counts: others use this machine too, and a sample in
// which one of the parties lost its core says nothing.
class Samples {
  public:
    void add(double value) { values_.push_back(value); }
    double quiet();

  private:
    std::vector<double> values_;
};

// Nanoseconds for each of `count` calls of run(i).
template <typename Run>
double time_each(std::uint64_t count, Run&& run) {
    const auto begin = Clock::now();
    for (std::uint64_t i = 0; i < count; ++i) {
        run(i);
    }
    const std::chrono::duration<double, std::nano> taken = Clock::now() - begin;
    return taken.count() / static_cast<double>(count);
}

} // namespace vrdma::bench
