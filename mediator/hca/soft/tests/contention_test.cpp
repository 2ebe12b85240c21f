// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The resources of a NIC that tenants contend for, with one test for each: READs, whose work the
// target does; requests that nobody receives; CQs that overflow; one word that all add to; one
// target that all write to. Beside each, a victim makes progress, counted in rounds of the poller.
#include <gtest/gtest.h>

#include <cstring>

#include "mediator/hca/soft/soft_hca.h"
#include "mediator/tests/guest/guest.h"

namespace vrdma::test {
namespace {

std::unique_ptr<hca::soft::SoftHca> contended_hca() {
    hca::soft::Config config;
    config.threads = false;
    return std::move(*hca::soft::SoftHca::create(config));
}

// A tenant, and the remote ends of others' connections.
class Tenant {
  public:
    static constexpr std::uint32_t depth = 64;

    Tenant(hca::Hca& hca, const char* name, std::uint8_t n)
        : guest{hca, name, ipv4_gid(n), std::move(*ArenaMemory::create(1ull << 30))} {}

    void connect(Tenant& to, unsigned queue_pairs, const GuestCq& completions) {
        for (unsigned i = 0; i < queue_pairs; ++i) {
            qps.push_back(guest.create_qp(completions, completions, {.sq_depth = depth}));
            to.ends.push_back(to.guest.create_qp(to.cq, to.cq, {.sq_depth = 1}));
            connect_both(guest, qps.back(), to.guest, to.ends.back());
        }
    }
    void post(const SendWr& wr, unsigned count) {
        for (GuestQp& qp : qps) {
            for (unsigned i = 0; i < count; ++i) {
                qp.post_send(wr);
            }
        }
    }
    std::uint64_t word() const {
        std::uint64_t value = 0;
        std::memcpy(&value, region.buffer.read(0, sizeof(value)).data(), sizeof(value));
        return value;
    }
    std::uint64_t counter(unsigned which) { return guest.slice().counters().value[which]; }

    Guest guest;
    GuestCq cq = guest.create_cq(1 << 15);
    MemoryRegion region = guest.register_mr(1 << 20, {.scattered = false});
    std::vector<GuestQp> qps;
    std::vector<GuestQp> ends;
};

class Contention : public ::testing::Test {
  protected:
    Contention() {
        victim_.connect(target_, 1, victim_.cq);
        rounds_of(fetch_and_add());
    }

    SendWr fetch_and_add() {
        return {.opcode = VRDMA_SQ_ATOMIC_FETCH_AND_ADD,
                .sges = {&result_, 1},
                .rkey = target_.region.key,
                .raddr = target_.region.start,
                .compare_add = 1};
    }
    SendWr write() {
        return {.opcode = VRDMA_SQ_RDMA_WRITE,
                .sges = {&result_, 1},
                .rkey = target_.region.key,
                .raddr = target_.region.start + 64};
    }

    // The number of rounds until the victim's request completes.
    unsigned rounds_of(const SendWr& wr) {
        constexpr unsigned max_rounds = 10000;
        victim_.qps.front().post_send(wr);
        unsigned rounds = 0;
        for (; !victim_.cq.ready() && rounds < max_rounds; ++rounds) {
            hca_->poll();
        }
        const auto completion = victim_.cq.poll();
        EXPECT_TRUE(completion && completion->status == IBV_WC_SUCCESS);
        return rounds;
    }
    // Expects each request to take few rounds, whatever the neighbours do.
    void expect_progress(const SendWr& wr) {
        for (unsigned i = 0; i < times; ++i) {
            ASSERT_LE(rounds_of(wr), most_rounds);
        }
    }

    static constexpr unsigned times = 50;
    static constexpr unsigned most_rounds = 6;
    static constexpr std::uint32_t depth = Tenant::depth;

    std::unique_ptr<hca::soft::SoftHca> hca_ = contended_hca();
    Tenant victim_{*hca_, "victim", 1};
    Tenant target_{*hca_, "target", 2};
    Tenant neighbour_{*hca_, "neighbour", 3};
    vrdma_sge result_ = victim_.region.sge(0, sizeof(std::uint64_t));
};

// 512 QPs READ 256 KiB each, 8 at a time: one small request makes the target send much.
TEST_F(Contention, Reads) {
    neighbour_.connect(neighbour_, 512, neighbour_.cq);
    const vrdma_sge sge = neighbour_.region.sge(0, 256 << 10);
    neighbour_.post({.opcode = VRDMA_SQ_RDMA_READ,
                     .flags = 0,
                     .sges = {&sge, 1},
                     .rkey = neighbour_.region.key,
                     .raddr = neighbour_.region.start + (512 << 10)},
                    8);
    hca_->poll();
    expect_progress(write());
    EXPECT_LT(neighbour_.counter(VRDMA_COUNTER_TX_MESSAGES), 512u * 8);
}

// 512 QPs SEND to QPs that have posted no receives, and retry again and again.
TEST_F(Contention, RequestsThatNobodyReceives) {
    neighbour_.connect(neighbour_, 512, neighbour_.cq);
    const vrdma_sge sge = neighbour_.region.sge(0, 64);
    neighbour_.post({.opcode = VRDMA_SQ_SEND, .sges = {&sge, 1}}, depth);
    hca_->poll();
    expect_progress(write());
    EXPECT_FALSE(neighbour_.cq.ready());
}

// 128 QPs with 64 WRITEs each share a CQ with room for one CQE: it overflows, and they fail.
TEST_F(Contention, CompletionQueuesThatOverflow) {
    const GuestCq small = neighbour_.guest.create_cq(1);
    neighbour_.connect(neighbour_, 128, small);
    const vrdma_sge sge = neighbour_.region.sge(0, 64);
    neighbour_.post({.opcode = VRDMA_SQ_RDMA_WRITE,
                     .sges = {&sge, 1},
                     .rkey = neighbour_.region.key,
                     .raddr = neighbour_.region.start + 4096},
                    depth);
    hca_->poll();
    expect_progress(write());
}

// 512 QPs add to the word that the victim adds to; nothing is lost.
TEST_F(Contention, OneWordThatAllAddTo) {
    constexpr unsigned queue_pairs = 512;
    neighbour_.connect(target_, queue_pairs, neighbour_.cq);
    const vrdma_sge result = neighbour_.region.sge(0, sizeof(std::uint64_t));
    SendWr add = fetch_and_add();
    add.sges = {&result, 1};
    neighbour_.post(add, depth);
    hca_->poll();
    expect_progress(fetch_and_add());
    constexpr std::uint64_t all = 1 + times + std::uint64_t{queue_pairs} * depth;
    EXPECT_LT(target_.word(), all);
    for (unsigned i = 0; i < 10000 && target_.word() < all; ++i) {
        hca_->poll();
    }
    EXPECT_EQ(target_.word(), all);
}

// 256 QPs WRITE 256 KiB each to the victim's own target.
TEST_F(Contention, OneTargetThatAllWriteTo) {
    neighbour_.connect(target_, 256, neighbour_.cq);
    const vrdma_sge sge = neighbour_.region.sge(0, 256 << 10);
    neighbour_.post({.opcode = VRDMA_SQ_RDMA_WRITE,
                     .flags = 0,
                     .sges = {&sge, 1},
                     .rkey = target_.region.key,
                     .raddr = target_.region.start + (512 << 10)},
                    8);
    hca_->poll();
    expect_progress(write());
    EXPECT_LT(neighbour_.counter(VRDMA_COUNTER_TX_MESSAGES), 256u * 8);
}

// The victim's requests do not slow the neighbour down: both make progress.
TEST_F(Contention, ProgressIsMutual) {
    neighbour_.connect(neighbour_, 64, neighbour_.cq);
    const vrdma_sge sge = neighbour_.region.sge(0, 4096);
    neighbour_.post({.opcode = VRDMA_SQ_RDMA_WRITE,
                     .sges = {&sge, 1},
                     .rkey = neighbour_.region.key,
                     .raddr = neighbour_.region.start + 4096},
                    depth);
    expect_progress(write());
    EXPECT_GT(neighbour_.counter(VRDMA_COUNTER_TX_MESSAGES), times);
}

} // namespace
} // namespace vrdma::test
