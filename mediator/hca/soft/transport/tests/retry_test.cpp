// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Receivers that are not ready, and peers that do not answer.
#include "mediator/hca/soft/transport/retry.h"

#include "mediator/hca/soft/tests/two_guests.h"

namespace vrdma::test {
namespace {

using Clock = std::chrono::steady_clock;

class Retry : public ConnectedPair {
  protected:
    GuestQp receiver_for(const GuestQp& sender, std::uint8_t min_rnr_timer) {
        GuestQp qp = b_.create_qp(b_cq_, b_cq_);
        move_to_init(b_, qp);
        vrdma_qp_attr attr = rtr_attr(a_.gid(), sender.id());
        attr.min_rnr_timer = min_rnr_timer;
        EXPECT_TRUE(b_.slice().modify_qp(qp.id(), attr));
        return qp;
    }

    void point(GuestQp& sender, Qpn peer) {
        move_to_init(a_, sender);
        EXPECT_TRUE(a_.slice().modify_qp(sender.id(), rtr_attr(b_.gid(), peer)));
    }

    void start(GuestQp& sender, std::uint8_t retry_cnt, std::uint8_t rnr_retry,
               std::uint8_t timeout) {
        vrdma_qp_attr attr = rts_attr();
        attr.retry_cnt = retry_cnt;
        attr.rnr_retry = rnr_retry;
        attr.timeout = timeout;
        EXPECT_TRUE(a_.slice().modify_qp(sender.id(), attr));
    }
};

// Compare the delays with those of the specification.
TEST(RetryDelays, AreThoseOfTheSpecification) {
    using namespace std::chrono_literals;
    EXPECT_EQ(hca::soft::rnr_delay(0), 655360us);
    EXPECT_EQ(hca::soft::rnr_delay(1), 10us);
    EXPECT_EQ(hca::soft::rnr_delay(12), 640us);
    EXPECT_EQ(hca::soft::rnr_delay(31), 491520us);
    EXPECT_EQ(hca::soft::ack_timeout(1), 8192ns);
    EXPECT_EQ(hca::soft::ack_timeout(14), 67108864ns);
    EXPECT_EQ(hca::soft::silence_timeout(1), 4 * 8192ns);
    EXPECT_EQ(hca::soft::silence_timeout(14), 4 * 67108864ns);
    EXPECT_EQ(hca::soft::silence_timeout(15), 2 * 134217728ns);
    EXPECT_EQ(hca::soft::silence_timeout(19), hca::soft::ack_timeout(19));
    EXPECT_EQ(hca::soft::rnr_delay(hca::soft::timer_of_20_ms), 20480us);
    EXPECT_EQ(hca::soft::rnr_delay(hca::soft::timer_of_491_ms), 491520us);
}

// Send before the receive is posted; expect the message to arrive once it is.
TEST_F(Retry, WaitsForAReceive) {
    a_qp_.post_send(
        {.flags = VRDMA_SQ_SIGNALED | VRDMA_SQ_INLINE, .inline_data = Buffer::pattern(1, 9)});
    poll();
    EXPECT_FALSE(a_cq_.poll());
    const vrdma_sge to = b_mr_.sge();
    b_qp_.post_recv({&to, 1});
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
    EXPECT_EQ(wait(b_cq_).byte_len, 9u);
    EXPECT_EQ(b_mr_.buffer.read(0, 9), Buffer::pattern(1, 9));
}

// Send with two RNR retries and a timer of 1.28 ms; expect RNR_RETRY_EXC_ERR after two of these
// delays, and an unaffected receiver.
TEST_F(Retry, GivesUpOnAReceiverThatIsNotReady) {
    GuestQp sender = a_.create_qp(a_cq_, a_cq_);
    GuestQp receiver = receiver_for(sender, 14);
    point(sender, receiver.id());
    start(sender, 7, 2, 4);
    const auto begin = Clock::now();
    sender.post_send({});
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_RNR_RETRY_EXC_ERR);
    EXPECT_GE(Clock::now() - begin, 2 * std::chrono::microseconds{1280});
    EXPECT_EQ(state_of(a_, sender), IBV_QPS_ERR);
    EXPECT_EQ(state_of(b_, receiver), IBV_QPS_RTR);
}

// The same with a write with immediate; expect no byte to have been written.
TEST_F(Retry, WriteWithImmediateNeedsAReceiveToo) {
    GuestQp sender = a_.create_qp(a_cq_, a_cq_);
    GuestQp receiver = receiver_for(sender, 1);
    point(sender, receiver.id());
    start(sender, 7, 0, 4);
    sender.post_send({.opcode = VRDMA_SQ_RDMA_WRITE_WITH_IMM,
                      .flags = VRDMA_SQ_INLINE,
                      .inline_data = Buffer::pattern(1, 9),
                      .rkey = b_mr_.key,
                      .raddr = b_mr_.start});
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_RNR_RETRY_EXC_ERR);
    EXPECT_EQ(b_mr_.buffer.read(0, 9), std::vector<std::byte>(9));
}

// RNR retry 7, for longer than any retry count would last; expect no error, and delivery in the
// end.
TEST_F(Retry, RnrRetrySevenIsWithoutEnd) {
    GuestQp sender = a_.create_qp(a_cq_, a_cq_);
    GuestQp receiver = receiver_for(sender, 1);
    point(sender, receiver.id());
    start(sender, 7, 7, 4);
    sender.post_send({});
    pass(std::chrono::milliseconds{5});
    EXPECT_FALSE(a_cq_.poll());
    receiver.post_recv({});
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
}

struct Absence {
    const char* name;
    std::uint8_t gid;
    bool other_qpn;
    bool other_source;
};

class NoAnswer : public Retry, public ::testing::WithParamInterface<Absence> {};

// Send to an unknown GID, to a QP that does not exist, and to one connected to another peer; expect
// RETRY_EXC_ERR after (retry_cnt + 1) silences.
TEST_P(NoAnswer, EndsInRetryExceeded) {
    const Absence& absence = GetParam();
    GuestQp sender = a_.create_qp(a_cq_, a_cq_);
    GuestQp receiver = b_.create_qp(b_cq_, b_cq_);
    move_to_init(b_, receiver);
    ASSERT_TRUE(b_.slice().modify_qp(
        receiver.id(),
        rtr_attr(a_.gid(), absence.other_source ? Qpn{sender.id().value + 1} : sender.id())));
    receiver.post_recv({});
    const Qpn peer = absence.other_qpn ? Qpn{0xfffff0} : receiver.id();
    move_to_init(a_, sender);
    ASSERT_TRUE(a_.slice().modify_qp(sender.id(), rtr_attr(ipv4_gid(absence.gid), peer)));
    start(sender, 2, 7, 8);
    const auto begin = Clock::now();
    sender.post_send({});
    const Completion failed = wait(a_cq_);
    EXPECT_EQ(failed.status, IBV_WC_RETRY_EXC_ERR);
    EXPECT_EQ(failed.vendor_err, VRDMA_VERR_PEER);
    const int whole =
        across_hosts() ? 2 : 3; // there the engine's clock may be a little late at first
    EXPECT_GE(Clock::now() - begin, whole * hca::soft::silence_timeout(8));
    EXPECT_FALSE(b_cq_.poll());
}

INSTANTIATE_TEST_SUITE_P(All, NoAnswer,
                         ::testing::Values(Absence{"UnknownGid", 77, false, false},
                                           Absence{"UnknownQp", 2, true, false},
                                           Absence{"ConnectedElsewhere", 2, false, true}),
                         [](const auto& info) { return std::string{info.param.name}; });

// A peer with the right GID, but the other RoCE version; expect no answer.
TEST_F(Retry, RoceVersionsDoNotMix) {
    ASSERT_TRUE(b_.slice().set_gid(0, VRDMA_GID_ROCE_V1, b_.gid(), 0));
    a_qp_.post_send({.opcode = VRDMA_SQ_RDMA_WRITE});
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_RETRY_EXC_ERR);
}

// Connect the receiver while the sender tries; expect the message to arrive.
TEST_F(Retry, FindsAPeerThatComesLate) {
    GuestQp sender = a_.create_qp(a_cq_, a_cq_);
    GuestQp receiver = b_.create_qp(b_cq_, b_cq_);
    connect(a_, sender, b_.gid(), receiver.id());
    sender.post_send({});
    poll();
    connect(b_, receiver, a_.gid(), sender.id());
    receiver.post_recv({});
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
}

// Timeout 0 waits without limit: expect no error for a while, and arrival once there is a peer.
TEST_F(Retry, TimeoutZeroWaitsForThePeer) {
    GuestQp sender = a_.create_qp(a_cq_, a_cq_);
    GuestQp receiver = b_.create_qp(b_cq_, b_cq_);
    move_to_init(a_, sender);
    ASSERT_TRUE(a_.slice().modify_qp(sender.id(), rtr_attr(b_.gid(), receiver.id())));
    start(sender, 0, 0, 0);
    sender.post_send({.opcode = VRDMA_SQ_RDMA_WRITE});
    settle();
    EXPECT_FALSE(a_cq_.poll());
    connect(b_, receiver, a_.gid(), sender.id());
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
}

} // namespace
} // namespace vrdma::test
