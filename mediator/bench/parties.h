// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The parties of a measurement: the benchmark's thread plays both guests, and the poller is the
// other thread. Each has a core of its own if there are two.
#pragma once

#include "bench/cores.h"
#include "bench/relay.h"
#include "bench/samples.h"
#include "mediator/hca/soft/soft_hca.h"
#include "mediator/tests/guest/guest.h"

namespace vrdma::bench {

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

} // namespace vrdma::bench
