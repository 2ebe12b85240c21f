// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A device whose memory has holes. Each access to a hole makes a page, while all other devices
// wait.
#include <gtest/gtest.h>

#include "mediator/hca/soft/memory/tests/holey_memory.h"
#include "mediator/hca/soft/soft_hca.h"
#include "mediator/tests/guest/guest.h"

namespace vrdma::test {
namespace {

// The number of holes that a round met.
std::uint64_t holes_in_a_round(hca::soft::SoftHca& hca) {
    const std::uint64_t before = FaultGuard::met();
    hca.poll();
    return FaultGuard::met() - before;
}

// Polls until that many requests have completed. Returns the most holes of one round.
std::uint64_t most_holes(hca::soft::SoftHca& hca, GuestCq& cq, unsigned completions) {
    std::uint64_t most = 0;
    for (int rounds = 0; completions > 0 && rounds < 100000; ++rounds) {
        most = std::max(most, holes_in_a_round(hca));
        for (; cq.ready(); --completions) {
            EXPECT_EQ(cq.poll()->status, IBV_WC_SUCCESS);
        }
    }
    EXPECT_EQ(completions, 0u);
    return most;
}

class Holes : public ::testing::Test {
  protected:
    static constexpr std::uint64_t size = 1 << 20;
    static constexpr std::uint64_t page = HoleyMemory::page;

    Holes() { connect_both(guest_, from_, guest_, to_); }

    static std::unique_ptr<hca::soft::SoftHca> make_hca() {
        hca::soft::Config config;
        config.threads = false;
        return std::move(*hca::soft::SoftHca::create(config));
    }
    // Writes between pages of the region that were never touched.
    void write(std::uint64_t from, std::uint64_t to, std::uint32_t bytes) {
        const vrdma_sge sge = region_.sge(from, bytes);
        from_.post_send({.opcode = VRDMA_SQ_RDMA_WRITE,
                         .flags = VRDMA_SQ_SIGNALED,
                         .sges = {&sge, 1},
                         .rkey = region_.key,
                         .raddr = region_.start + to});
    }
    std::uint64_t round() { return holes_in_a_round(*hca_); }
    std::uint64_t most_in_a_round(unsigned completions) {
        return most_holes(*hca_, cq_, completions);
    }

    std::unique_ptr<hca::soft::SoftHca> hca_ = make_hca();
    std::unique_ptr<HoleyMemory> made_ = HoleyMemory::create();
    HoleyMemory& memory_ = *made_;
    Guest guest_{*hca_, "holey", ipv4_gid(1), std::move(made_)};
    Guest other_{*hca_, "other", ipv4_gid(2)};
    GuestCq cq_ = guest_.create_cq(64);
    GuestQp from_ = guest_.create_qp(cq_, cq_, {.sq_depth = 64});
    GuestQp to_ = guest_.create_qp(cq_, cq_);
    MemoryRegion region_ = guest_.register_mr(size, {.scattered = false});
};

// 32 messages of a page, each from a hole to a hole; expect a round to fill at most two, because
// other devices wait meanwhile.
TEST_F(Holes, ARoundFillsFew) {
    for (std::uint64_t i = 0; i < 32; ++i) {
        write(i * page, size / 2 + i * page, page);
    }
    EXPECT_LE(most_in_a_round(32), 2u);
}

// A message of 512 KiB from holes to holes; expect its first piece to have the usual length, and
// later rounds to fill at most two holes each.
TEST_F(Holes, ALongMessageGoesOnByThePage) {
    write(0, size / 2, size / 2);
    EXPECT_GT(round(), 2u);
    EXPECT_LE(most_in_a_round(1), 2u);
}

// After some holes, the sender meets one that may not be filled; expect the message to fail as
// without the holes before.
TEST_F(Holes, MissingMemoryIsToldAllTheSame) {
    write(0, size / 2, page);
    most_in_a_round(1);
    GuestQp sender = guest_.create_qp(cq_, cq_);
    GuestCq cq = other_.create_cq(64);
    const GuestQp receiver = other_.create_qp(cq, cq);
    connect_both(guest_, sender, other_, receiver);
    const MemoryRegion target = other_.register_mr(page);
    memory_.fills = false;
    const vrdma_sge sge = region_.sge(page, page);
    sender.post_send({.opcode = VRDMA_SQ_RDMA_WRITE,
                      .sges = {&sge, 1},
                      .rkey = target.key,
                      .raddr = target.start});
    for (int rounds = 0; !cq_.ready() && rounds < 1000; ++rounds) {
        hca_->poll();
    }
    ASSERT_TRUE(cq_.ready());
    EXPECT_EQ(cq_.poll()->status, IBV_WC_LOC_PROT_ERR);
}

// A guest writes from its own memory to the holes of another guest, whose poller makes the pages.
class HolesElsewhere : public ::testing::Test {
  protected:
    static constexpr std::uint64_t page = HoleyMemory::page;
    static constexpr unsigned pairs = 8;
    static constexpr std::uint64_t size = 1 << 20;

    HolesElsewhere() {
        for (unsigned i = 0; i < pairs; ++i) {
            from_.push_back(guest_.create_qp(cq_, cq_));
            to_.push_back(holey_.create_qp(holey_cq_, holey_cq_));
            connect_both(guest_, from_.back(), holey_, to_.back());
        }
    }

    static std::unique_ptr<hca::soft::SoftHca> make_hca() {
        hca::soft::Config config;
        config.threads = false;
        config.pollers = 2;
        return std::move(*hca::soft::SoftHca::create(config));
    }
    void write(GuestQp& from, std::uint64_t to, std::uint32_t bytes) {
        const vrdma_sge sge = source_.sge(0, bytes);
        from.post_send({.opcode = VRDMA_SQ_RDMA_WRITE,
                        .sges = {&sge, 1},
                        .rkey = target_.key,
                        .raddr = target_.start + to});
    }

    std::unique_ptr<hca::soft::SoftHca> hca_ = make_hca();
    Guest guest_{*hca_, "guest", ipv4_gid(1)};
    Guest holey_{*hca_, "holey", ipv4_gid(2), HoleyMemory::create()};
    GuestCq cq_ = guest_.create_cq(64);
    GuestCq holey_cq_ = holey_.create_cq(64);
    std::vector<GuestQp> from_;
    std::vector<GuestQp> to_;
    MemoryRegion source_ = guest_.register_mr(size, {.scattered = false});
    MemoryRegion target_ = holey_.register_mr(size, {.scattered = false});
};

// Several QPs each send a message to a hole at the same time; expect a round to fill one.
TEST_F(HolesElsewhere, ARoundFillsOne) {
    for (unsigned i = 0; i < pairs; ++i) {
        write(from_[i], i * page, page);
    }
    EXPECT_EQ(most_holes(*hca_, cq_, pairs), 1u);
}

// A long message to holes; expect its sender to be charged for the holes of the first piece, and
// then to proceed page by page.
TEST_F(HolesElsewhere, ALongMessageGoesOnByThePage) {
    write(from_[0], 0, size);
    std::uint64_t first = 0;
    for (int rounds = 0; first == 0 && rounds < 10; ++rounds) {
        first = holes_in_a_round(*hca_);
    }
    EXPECT_GT(first, 1u);
    EXPECT_EQ(most_holes(*hca_, cq_, 1), 1u);
}

} // namespace
} // namespace vrdma::test
