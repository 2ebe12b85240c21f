// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A slice's counters of messages and failures.
#include "mediator/hca/soft/tests/two_guests.h"

namespace vrdma::test {
namespace {

std::uint64_t counter(Guest& guest, vrdma_counter which) {
    return guest.slice().counters().value[which];
}

class RcCounters : public ConnectedPair {
  protected:
    SendWr write(std::uint64_t raddr, Key key) const {
        return {.opcode = VRDMA_SQ_RDMA_WRITE,
                .flags = VRDMA_SQ_SIGNALED | VRDMA_SQ_INLINE,
                .inline_data = data_,
                .rkey = key,
                .raddr = raddr};
    }

    const std::vector<std::byte> data_ = Buffer::pattern(1, 30); // a request only refers to it
};

// Send, write and read; expect one message for each on both sides. The bytes of the READ count in
// the other direction.
TEST_F(RcCounters, MessagesAndBytes) {
    b_qp_.post_recv({});
    a_qp_.post_send({.flags = VRDMA_SQ_SIGNALED});
    a_qp_.post_send(write(b_mr_.start, b_mr_.key));
    const vrdma_sge to = a_mr_.sge(0, 500);
    a_qp_.post_send({.opcode = VRDMA_SQ_RDMA_READ,
                     .flags = VRDMA_SQ_SIGNALED,
                     .sges = {&to, 1},
                     .rkey = b_mr_.key,
                     .raddr = b_mr_.start});
    for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
    }
    EXPECT_EQ(counter(a_, VRDMA_COUNTER_TX_MESSAGES), 3u);
    EXPECT_EQ(counter(a_, VRDMA_COUNTER_TX_BYTES), 30u);
    EXPECT_EQ(counter(a_, VRDMA_COUNTER_RX_BYTES), 500u);
    EXPECT_EQ(counter(b_, VRDMA_COUNTER_RX_MESSAGES), 3u);
    EXPECT_EQ(counter(b_, VRDMA_COUNTER_RX_BYTES), 30u);
    EXPECT_EQ(counter(b_, VRDMA_COUNTER_TX_BYTES), 500u);
    EXPECT_EQ(counter(b_, VRDMA_COUNTER_TX_MESSAGES), 0u);
}

// Bind both sides' QPs to sets, send, unbind, and send again; expect the first message to count in
// the sets, and all messages to count for QPs and slices. The unbound set keeps its counts.
TEST_F(RcCounters, ABoundQpCountsInItsSet) {
    constexpr CounterSetId set{7};
    const auto exchange = [&] {
        b_qp_.post_recv({});
        a_qp_.post_send({.flags = VRDMA_SQ_SIGNALED});
        EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
        EXPECT_EQ(wait(b_cq_).status, IBV_WC_SUCCESS);
    };
    const auto in_set = [&](Guest& guest, vrdma_counter which) {
        return guest.slice().set_counters(set).value().value[which];
    };
    for (Guest* guest : {&a_, &b_}) {
        ASSERT_TRUE(guest->slice().create_counter_set(set));
    }
    exchange();
    a_.slice().bind_counter_set(a_qp_.id(), set);
    b_.slice().bind_counter_set(b_qp_.id(), set);
    exchange();
    a_.slice().bind_counter_set(a_qp_.id(), {});
    exchange();
    EXPECT_EQ(in_set(a_, VRDMA_COUNTER_TX_MESSAGES), 1u);
    EXPECT_EQ(in_set(b_, VRDMA_COUNTER_RX_MESSAGES), 2u);
    EXPECT_EQ(counter(a_, VRDMA_COUNTER_TX_MESSAGES), 3u);
    EXPECT_EQ(a_.slice().qp_counters(a_qp_.id())->value[VRDMA_COUNTER_TX_MESSAGES], 3u);
    a_.slice().destroy_counter_set(set);
    EXPECT_FALSE(a_.slice().set_counters(set));
    EXPECT_EQ(a_.slice().counters_of_sets().value[VRDMA_COUNTER_TX_MESSAGES], 1u);
    b_.slice().bind_counter_set(b_qp_.id(), {});
    b_.slice().destroy_counter_set(set);
}

// Write with a key that does not exist, and a message behind it; expect a remote error counted at
// the requester, a refusal counted at the responder, and a flush.
TEST_F(RcCounters, RefusedAccess) {
    a_qp_.post_send(write(b_mr_.start, Key{4711}));
    a_qp_.post_send({});
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_REM_ACCESS_ERR);
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(counter(a_, VRDMA_COUNTER_REMOTE_ACCESS_ERRORS), 1u);
    EXPECT_EQ(counter(a_, VRDMA_COUNTER_FLUSHED_WQES), 1u);
    EXPECT_EQ(counter(a_, VRDMA_COUNTER_TX_MESSAGES), 0u);
    EXPECT_EQ(counter(b_, VRDMA_COUNTER_REFUSED_REQUESTS), 1u);
}

// Send from memory that is not the sender's; expect a local error.
TEST_F(RcCounters, LocalError) {
    const vrdma_sge bad{.addr = 0, .length = 8, .lkey = 4711};
    a_qp_.post_send({.sges = {&bad, 1}});
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_LOC_PROT_ERR);
    EXPECT_EQ(counter(a_, VRDMA_COUNTER_LOCAL_ERRORS), 1u);
}

// Send to a peer without a receive, which then posts one; expect at least one RNR NAK.
TEST_F(RcCounters, ReceiverNotReady) {
    a_qp_.post_send({.flags = VRDMA_SQ_SIGNALED});
    settle();
    b_qp_.post_recv({});
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
    EXPECT_GE(counter(a_, VRDMA_COUNTER_RNR_NAKS), 1u);
    EXPECT_EQ(counter(a_, VRDMA_COUNTER_TX_MESSAGES), 1u);
}

// Write and read; expect each side to have sent at least one packet for each, and the other to have
// received as many. Within a host there are none.
TEST_F(RcCounters, Packets) {
    a_qp_.post_send(write(b_mr_.start, b_mr_.key));
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
    const vrdma_sge to = a_mr_.sge(0, 500);
    a_qp_.post_send({.opcode = VRDMA_SQ_RDMA_READ,
                     .flags = VRDMA_SQ_SIGNALED,
                     .sges = {&to, 1},
                     .rkey = b_mr_.key,
                     .raddr = b_mr_.start});
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
    for (Guest* const guest : {&a_, &b_}) {
        const std::uint64_t sent = counter(*guest, VRDMA_COUNTER_TX_PACKETS);
        EXPECT_TRUE(across_hosts() ? sent >= 2 : sent == 0) << sent;
    }
    EXPECT_EQ(counter(a_, VRDMA_COUNTER_TX_PACKETS), counter(b_, VRDMA_COUNTER_RX_PACKETS));
    EXPECT_EQ(counter(b_, VRDMA_COUNTER_TX_PACKETS), counter(a_, VRDMA_COUNTER_RX_PACKETS));
}

class UcCounters : public ConnectedPair {
  protected:
    UcCounters() : ConnectedPair{hca::QpType::uc} {}
};

// Send without a receive; expect it to count as sent, and as dropped.
TEST_F(UcCounters, Dropped) {
    a_qp_.post_send({.flags = VRDMA_SQ_SIGNALED});
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
    EXPECT_EQ(counter(a_, VRDMA_COUNTER_TX_MESSAGES), 1u);
    EXPECT_EQ(counter(b_, VRDMA_COUNTER_RX_MESSAGES), 0u);
    EXPECT_EQ(counter(b_, VRDMA_COUNTER_DROPPED_MESSAGES), 1u);
    EXPECT_EQ(counter(a_, VRDMA_COUNTER_TX_PACKETS), across_hosts() ? 1u : 0u);
    EXPECT_EQ(counter(b_, VRDMA_COUNTER_RX_PACKETS), across_hosts() ? 1u : 0u);
}

} // namespace
} // namespace vrdma::test
