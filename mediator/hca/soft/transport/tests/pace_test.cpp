// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A slice with a pace: it and its peers access its guest's memory more slowly, and nothing fails.
#include "mediator/hca/soft/tests/two_guests.h"

namespace vrdma::test {
namespace {

constexpr std::uint64_t pace = 1'000'000; // bytes per second
constexpr std::uint32_t size = 32 << 10;  // of a message: 33 ms at that pace

class Paced : public ::testing::Test, protected GuestPair {
  protected:
    explicit Paced(bool apart = false) : GuestPair{apart} {
        connect_pair(a_qp_, b_qp_);
        b_.slice().set_pace(pace);
    }

    void post(GuestQp& qp, const MemoryRegion& from, const MemoryRegion& to, unsigned messages,
              std::uint32_t bytes, vrdma_sq_opcode opcode = VRDMA_SQ_RDMA_WRITE) {
        const vrdma_sge sge = from.sge(0, bytes);
        for (unsigned i = 0; i < messages; ++i) {
            qp.post_send({.opcode = opcode,
                          .flags = VRDMA_SQ_SIGNALED,
                          .sges = {&sge, 1},
                          .rkey = to.key,
                          .raddr = to.start});
        }
    }

    // Returns how many messages complete within a tenth of a second, in which the pace allows four.
    unsigned completed_in_a_while(GuestCq& cq) {
        unsigned completed = 0;
        const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds{100};
        while (std::chrono::steady_clock::now() < end) {
            poll();
            while (const auto completion = cq.poll()) {
                EXPECT_EQ(completion->status, IBV_WC_SUCCESS);
                ++completed;
            }
        }
        return completed;
    }

    // Expects a few of the posted messages to complete by the pace, and the others without it.
    void expect_paced(GuestCq& cq, unsigned messages, unsigned most = 8) {
        unsigned completed = completed_in_a_while(cq);
        EXPECT_GE(completed, 1u);
        EXPECT_LE(completed, most);
        b_.slice().set_pace(0);
        for (; completed < messages; ++completed) {
            ASSERT_EQ(wait(cq).status, IBV_WC_SUCCESS);
        }
    }

    static constexpr unsigned many = 16;

    GuestQp a_qp_{a_.create_qp(a_cq_, a_cq_, {.sq_depth = many})};
    GuestQp b_qp_{b_.create_qp(b_cq_, b_cq_, {.sq_depth = many})};
    MemoryRegion a_mr_ = a_.register_mr(1 << 20);
    MemoryRegion b_mr_ = b_.register_mr(1 << 20);
};

TEST_F(Paced, IsWrittenSlowly) {
    post(a_qp_, a_mr_, b_mr_, many, size);
    expect_paced(a_cq_, many);
}

TEST_F(Paced, IsReadSlowly) {
    post(a_qp_, a_mr_, b_mr_, many, size, VRDMA_SQ_RDMA_READ);
    expect_paced(a_cq_, many);
}

TEST_F(Paced, WritesSlowly) {
    post(b_qp_, b_mr_, a_mr_, many, size);
    expect_paced(b_cq_, many);
}

// Send a message that takes a second at this pace; expect it to arrive as a whole, and the next one
// to wait for it.
TEST_F(Paced, TakesLongMessagesWhole) {
    post(a_qp_, a_mr_, b_mr_, 2, 1 << 20);
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
    EXPECT_EQ(completed_in_a_while(a_cq_), 0u);
    b_.slice().set_pace(0);
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
}

// Let the peer have a timeout of a millisecond and no retries, and 33 ms between two messages;
// expect no message to fail.
TEST_F(Paced, ItsPeersDoNotTimeOut) {
    vrdma_qp_attr attr = state_attr(IBV_QPS_RTS);
    attr.attr_mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT;
    attr.timeout = 8;
    attr.retry_cnt = 0;
    ASSERT_TRUE(a_.slice().modify_qp(a_qp_.id(), attr));
    post(a_qp_, a_mr_, b_mr_, many, size);
    expect_paced(a_cq_, many);
}

class PacedAcrossHosts : public Paced {
  protected:
    PacedAcrossHosts() : Paced{true} {}
};

// A peer on another host learns of the pace by congestion notices. They slow each QP to 5 MB per
// second at most, so the peer has to wait as well.
TEST_F(PacedAcrossHosts, SlowsItsPeer) {
    post(a_qp_, a_mr_, b_mr_, many, size);
    expect_paced(a_cq_, many);
    const vrdma_counters counters = b_.slice().counters();
    EXPECT_GE(counters.value[VRDMA_COUNTER_SENT_NOTICES], 1u);
    EXPECT_EQ(counters.value[VRDMA_COUNTER_MARKED_PACKETS], 0u);
    EXPECT_GE(a_.slice().counters().value[VRDMA_COUNTER_HEEDED_NOTICES], 1u);
}

// Let the program allow no RNR retries; expect no message to fail.
TEST_F(PacedAcrossHosts, DoesNotExhaustRetries) {
    vrdma_qp_attr attr = state_attr(IBV_QPS_RTS);
    attr.attr_mask |= IBV_QP_RNR_RETRY;
    attr.rnr_retry = 0;
    ASSERT_TRUE(a_.slice().modify_qp(a_qp_.id(), attr));
    ASSERT_TRUE(b_.slice().modify_qp(b_qp_.id(), attr));
    post(a_qp_, a_mr_, b_mr_, many, size);
    for (unsigned i = 0; i < many; ++i) {
        ASSERT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
    }
}

} // namespace
} // namespace vrdma::test
