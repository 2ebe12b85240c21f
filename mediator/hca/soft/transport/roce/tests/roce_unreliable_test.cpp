// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The reaction of UC and UD QPs to a peer's packets (IBA 9.8.3).
#include "mediator/hca/soft/transport/roce/tests/network_peer.h"

namespace vrdma::test {
namespace {

class RoceUc : public NetworkPeer {
  protected:
    RoceUc() : NetworkPeer{{.type = hca::QpType::uc}} { mr_.buffer.fill(1); }
};

// Receive messages of three packets whose first, middle, or last is lost; expect each to be dropped
// silently, and the next complete one to take the receive that waited.
TEST_F(RoceUc, GapsDropAMessageAndNoMore) {
    constexpr std::uint8_t operations[] = {VRDMA_ROCE_SEND_FIRST, VRDMA_ROCE_SEND_MIDDLE,
                                           VRDMA_ROCE_SEND_LAST};
    std::uint32_t n = 0;
    for (std::uint32_t lost = 0; lost < 4; ++lost) { // in the last round, none is lost
        if (lost == 3) {
            post_receive(0x1000, 3 * mtu);
        } else if (lost == 0) {
            post_receive(0, 3 * mtu);
        }
        for (std::uint32_t i = 0; i < 3; ++i, ++n) {
            if (i != lost) {
                deliver(packet(operations[i], n),
                        Buffer::pattern(static_cast<std::uint8_t>(n), mtu));
            }
        }
        expect_silence();
        EXPECT_EQ(cq_.poll().has_value(), lost == 3);
    }
    EXPECT_EQ(mr_.buffer.read(mtu, mtu), Buffer::pattern(10, mtu));
    EXPECT_EQ(state_of(guest_, qp_), IBV_QPS_RTS);
}

// Receive WRITEs that are refused, have wrong lengths, or are out of place; expect no answer, an
// unaffected QP, and the next WRITE to be executed.
TEST_F(RoceUc, RefusesSilently) {
    wire::Headers refused = remote(VRDMA_ROCE_WRITE_ONLY, 0, 8);
    refused.rkey = 0x4711;
    deliver(refused, Buffer::pattern(9, 8));
    deliver(remote(VRDMA_ROCE_WRITE_ONLY, 1, 8), Buffer::pattern(9, 9));
    deliver(packet(VRDMA_ROCE_WRITE_MIDDLE, 2), Buffer::pattern(9, mtu));
    deliver(remote(VRDMA_ROCE_WRITE_FIRST, 3, 2 * mtu), Buffer::pattern(1, mtu));
    deliver(packet(VRDMA_ROCE_SEND_LAST, 4), Buffer::pattern(9, mtu));
    deliver(remote(VRDMA_ROCE_WRITE_ONLY, 9, 8, 500), Buffer::pattern(5, 8));
    expect_silence();
    EXPECT_EQ(state_of(guest_, qp_), IBV_QPS_RTS);
    EXPECT_EQ(event_types(), std::vector<std::uint32_t>{});
    EXPECT_EQ(mr_.buffer.read(0, 500), Buffer::pattern(1, 500));
    EXPECT_EQ(mr_.buffer.read(500, 8), Buffer::pattern(5, 8));
}

// Receive a message that is too long for the SRQ's WQE that its first packet took; expect no
// completion, and the QP to use the same WQE for its next message, so that none is lost.
TEST_F(RoceUc, AWqeOfAnSrqWaitsForAMessageThatFits) {
    GuestSrq srq = guest_.create_srq();
    qp_ = guest_.create_qp(cq_, cq_, QpShape::sharing(srq.id(), hca::QpType::uc));
    activate({.type = hca::QpType::uc});
    const vrdma_sge to = mr_.sge(0, 2 * mtu);
    for (const std::uint32_t cookie : {1, 2}) {
        srq.post_recv(cookie, {&to, 1});
    }
    deliver(packet(VRDMA_ROCE_SEND_FIRST, 0), Buffer::pattern(9, mtu));
    deliver(packet(VRDMA_ROCE_SEND_MIDDLE, 1), Buffer::pattern(9, mtu));
    deliver(packet(VRDMA_ROCE_SEND_LAST, 2), Buffer::pattern(9, mtu));
    expect_silence();
    EXPECT_FALSE(cq_.poll());
    EXPECT_EQ(state_of(guest_, qp_), IBV_QPS_RTS);
    for (const std::uint32_t cookie : {1, 2}) {
        deliver(packet(VRDMA_ROCE_SEND_ONLY, 2 + cookie), Buffer::pattern(5, 8));
        settle();
        const auto completion = cq_.poll();
        ASSERT_TRUE(completion);
        EXPECT_EQ(completion->status, IBV_WC_SUCCESS);
        EXPECT_EQ(completion->index, cookie);
    }
}

// Send across the wrap-around of the PSNs; expect completions without any answer.
TEST_F(RoceUc, CompletesWhatHasLeft) {
    const vrdma_sge local = mr_.sge(0, 3 * mtu);
    qp_.post_send({.sges = {&local, 1}});
    const auto packets = replies();
    ASSERT_EQ(packets.size(), 3u);
    for (std::uint32_t n = 0; n < 3; ++n) {
        EXPECT_EQ(packets[n].headers.psn, psn(n));
        EXPECT_FALSE(packets[n].headers.ack_request);
    }
    ASSERT_TRUE(cq_.poll());
    EXPECT_EQ(counter(VRDMA_COUNTER_TX_PACKETS), 3u);
}

class RoceUd : public NetworkPeer {
  protected:
    static constexpr std::uint32_t qkey = 0x1234;

    RoceUd() { activate_ud(guest_, ud_, qkey); }

    wire::Headers datagram(std::uint32_t key) const {
        wire::Headers headers;
        headers.opcode = VRDMA_ROCE_UD_SEND_ONLY;
        headers.target_qpn = ud_.id().value;
        headers.qkey = key;
        headers.source_qpn = peer_qpn;
        return headers;
    }

    GuestQp ud_ = guest_.create_qp(cq_, cq_, {.type = hca::QpType::ud});
};

// Receive datagrams with a wrong Q_Key, for a receive that is too small, and a good one; expect the
// first two to be dropped and counted, and the good one with its sender.
TEST_F(RoceUd, DropsAndCounts) {
    const vrdma_sge to = mr_.sge(0, VRDMA_UD_GRH_SIZE + 10);
    ud_.post_recv({&to, 1});
    deliver(datagram(qkey + 1), Buffer::pattern(9, 10));
    deliver(datagram(qkey), Buffer::pattern(9, 11));
    expect_silence();
    EXPECT_FALSE(cq_.poll());
    EXPECT_EQ(counter(VRDMA_COUNTER_BAD_QKEYS), 1u);
    EXPECT_EQ(counter(VRDMA_COUNTER_DROPPED_MESSAGES), 1u);
    deliver(datagram(qkey), Buffer::pattern(3, 10));
    expect_silence();
    const auto completion = cq_.poll();
    ASSERT_TRUE(completion);
    EXPECT_EQ(completion->byte_len, VRDMA_UD_GRH_SIZE + 10u);
    EXPECT_EQ(completion->src_qpn, peer_qpn);
    EXPECT_EQ(mr_.buffer.read(VRDMA_UD_GRH_SIZE, 10), Buffer::pattern(3, 10));
    EXPECT_EQ(counter(VRDMA_COUNTER_RX_PACKETS), 3u);
}

} // namespace
} // namespace vrdma::test
