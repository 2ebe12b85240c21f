// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// When the port hands its frames to the network: the packets of a long message may share a frame,
// and all others leave in their round.
#include "mediator/hca/soft/transport/roce/tests/network_peer.h"

namespace vrdma::test {
namespace {

class RoceFlush : public NetworkPeer {
  protected:
    static constexpr std::uint32_t long_message = 1 << 15; // more than a device's turn

    std::size_t flushes() const { return static_cast<Cable::End&>(*end_).flushes_there(); }
    // Polls once. Returns the packets of that round.
    std::vector<Arrived> round() {
        hca_->poll();
        return sent();
    }
    // The packets of the first round that has any.
    std::vector<Arrived> first_round() {
        constexpr int most_rounds = 100;
        std::vector<Arrived> packets;
        for (int rounds = 0; packets.empty() && rounds < most_rounds; ++rounds) {
            packets = round();
        }
        return packets;
    }
    // Expects the packets of one message, which take several rounds, to wait for its last one.
    void expect_one_flush(std::uint8_t last_operation) {
        auto packets = first_round();
        ASSERT_LT(packets.size(), long_message / mtu);
        while (packets.back().operation() != last_operation) {
            EXPECT_EQ(flushes(), 0);
            const auto more = round();
            ASSERT_FALSE(more.empty());
            packets.insert(packets.end(), more.begin(), more.end());
        }
        EXPECT_EQ(packets.size(), long_message / mtu);
        EXPECT_EQ(flushes(), 1);
    }
};

TEST_F(RoceFlush, AShortMessageLeavesInItsRound) {
    post(VRDMA_SQ_SEND, 8);
    EXPECT_EQ(first_round().size(), 1);
    EXPECT_EQ(flushes(), 1);
}

// Post a WRITE that takes several rounds; expect it to leave at its end.
TEST_F(RoceFlush, ALongMessageIsNotInterrupted) {
    post(VRDMA_SQ_RDMA_WRITE, long_message);
    expect_one_flush(VRDMA_ROCE_WRITE_LAST);
}

// Deliver a READ; expect the same of its responses.
TEST_F(RoceFlush, ALongAnswerIsNotInterrupted) {
    deliver(remote(VRDMA_ROCE_READ_REQUEST, 0, long_message));
    expect_one_flush(VRDMA_ROCE_READ_RESPONSE_LAST);
}

// A QP sends one long message after the other, until its window ends in the middle of one; expect
// the packets to leave in the round after that, and the port to say meanwhile that it has something
// to do.
TEST_F(RoceFlush, MessagesThatCannotGoOnWaitForOneRound) {
    post(VRDMA_SQ_RDMA_WRITE, long_message + long_message / 2);
    post(VRDMA_SQ_RDMA_WRITE, long_message + long_message / 2);
    for (auto packets = first_round(); !packets.empty(); packets = round()) {
        EXPECT_NE(packets.back().operation(), VRDMA_ROCE_WRITE_LAST);
        EXPECT_EQ(flushes(), 0);
        hca_->with_port("cable", [&](auto& port) { EXPECT_TRUE(port.pending()); });
    }
    EXPECT_EQ(flushes(), 1);
    hca_->with_port("cable", [&](auto& port) { EXPECT_FALSE(port.pending()); });
}

// Two QPs send long messages by turns; expect the end of a message to leave in its round.
TEST_F(RoceFlush, AMessageDoesNotWaitForThoseOfOthers) {
    GuestQp first = std::move(qp_);
    renew();
    std::swap(first, qp_);
    post(VRDMA_SQ_RDMA_WRITE, 2 * mtu);
    std::swap(first, qp_);
    post(VRDMA_SQ_RDMA_WRITE, long_message);
    EXPECT_NE(first_round().back().operation(), VRDMA_ROCE_WRITE_LAST);
    EXPECT_EQ(flushes(), 1);
}

// An acknowledgement is due while a message goes on; expect it to leave in its round, with all
// packets before it.
TEST_F(RoceFlush, AnAnswerDoesNotWaitForAMessage) {
    post_receive(0, 8);
    post(VRDMA_SQ_RDMA_WRITE, long_message);
    first_round();
    EXPECT_EQ(flushes(), 0);
    deliver(asking(VRDMA_ROCE_SEND_ONLY, 0), Payload(8));
    const auto packets = round();
    EXPECT_TRUE(std::ranges::any_of(packets, [](const Arrived& packet) {
        return packet.operation() == VRDMA_ROCE_ACKNOWLEDGE;
    }));
    EXPECT_EQ(flushes(), 1);
}

// The uplink joins frames. It is told when several packets were not answered in time, since it may
// have lost them together.
class RoceSilence : public NetworkPeer {
  protected:
    RoceSilence() : NetworkPeer{{.min_rto = std::chrono::milliseconds{1}}} {}

    std::size_t silences() const { return static_cast<Cable::End&>(*end_).silences_there(); }
    // Polls until the requester has sent a packet again.
    void await_probe() {
        sent();
        const auto limit = Clock::now() + std::chrono::seconds{10};
        while (sent().empty() && Clock::now() < limit) {
            hca_->poll();
        }
    }
};

// The peer is silent; expect it to be told once, as later only a probe is not answered.
TEST_F(RoceSilence, IsToldOfSeveralPackets) {
    post(VRDMA_SQ_SEND, 8);
    replies();
    answer(0); // the peer usually answers fast
    post(VRDMA_SQ_RDMA_WRITE, 3 * mtu);
    settle();
    await_probe();
    EXPECT_EQ(silences(), 1);
    await_probe();
    EXPECT_EQ(silences(), 1);
}

TEST_F(RoceSilence, IsNotToldOfOnePacket) {
    post(VRDMA_SQ_SEND, 8);
    replies();
    answer(0);
    post(VRDMA_SQ_SEND, 8);
    settle();
    await_probe();
    EXPECT_EQ(silences(), 0);
}

// The peer asks for a whole READ again; expect its answer to count as lost. If the peer asks for
// the rest of one, it got the beginning.
TEST_F(RoceSilence, IsToldOfAnAnswer) {
    deliver(remote(VRDMA_ROCE_READ_REQUEST, 0, 4 * mtu));
    EXPECT_EQ(replies().size(), 4);
    deliver(remote(VRDMA_ROCE_READ_REQUEST, 1, 3 * mtu, mtu));
    EXPECT_EQ(replies().size(), 3);
    EXPECT_EQ(silences(), 0);
    deliver(remote(VRDMA_ROCE_READ_REQUEST, 1, 3 * mtu, mtu));
    EXPECT_EQ(replies().size(), 3);
    EXPECT_EQ(silences(), 1);
}

} // namespace
} // namespace vrdma::test
