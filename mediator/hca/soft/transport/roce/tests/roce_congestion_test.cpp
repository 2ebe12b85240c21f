// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The reaction of a connected QP to congestion on its way to the peer, and its notices to the peer
// (A17.9).
#include "mediator/hca/soft/transport/roce/congestion.h"
#include "mediator/hca/soft/transport/roce/tests/network_peer.h"

namespace vrdma::test {
namespace {

using hca::soft::Clock;

class RoceCongestion : public NetworkPeer {
  protected:
    static constexpr std::uint32_t turn = 32; // packets

    wire::Path marked() const {
        wire::Path path = path_;
        path.traffic_class |= VRDMA_ECN_CONGESTED;
        return path;
    }
    // A notice of congestion to that QPN, with an unexpected PSN.
    wire::Headers cnp(std::uint32_t qpn) const {
        wire::Headers headers;
        headers.opcode = VRDMA_ROCE_CNP;
        headers.migrated = false;
        headers.becn = true;
        headers.target_qpn = qpn;
        headers.psn = 0x4711;
        return headers;
    }
    static std::size_t notices(const std::vector<Arrived>& packets) {
        return static_cast<std::size_t>(std::ranges::count(
            packets, VRDMA_ROCE_CNP,
            [](const Arrived& packet) { return static_cast<int>(packet.headers.opcode); }));
    }
    // The number of packets that leave in the QP's next turn.
    std::size_t turn_of_qp() {
        const auto limit = Clock::now() + std::chrono::seconds{10};
        std::size_t found = 0;
        while (found == 0 && Clock::now() < limit) {
            hca_->poll();
            found = sent().size();
        }
        return found;
    }
    // Expects all packets to leave in the end; `found` have left already.
    void expect_rest(std::size_t found, std::size_t all) {
        for (const auto limit = Clock::now() + std::chrono::seconds{10};
             found < all && Clock::now() < limit;) {
            hca_->poll();
            found += sent().size();
        }
        EXPECT_EQ(found, all);
    }
    // Receives the acknowledgement of all packets of the message under way.
    void acknowledge(std::uint32_t psn) {
        wire::Headers headers = packet(VRDMA_ROCE_ACKNOWLEDGE, psn);
        headers.syndrome = ack;
        deliver(headers);
        settle();
        EXPECT_TRUE(cq_.poll());
    }
};

// Write; expect packets that routers may mark, in the guest's traffic class.
TEST_F(RoceCongestion, PacketsMayBeMarked) {
    post(VRDMA_SQ_RDMA_WRITE, 8);
    EXPECT_EQ(reply().path.traffic_class, VRDMA_ECN_CAPABLE);
}

// Receive marked packets at once; expect one notice, to the peer's QP, in its own traffic class.
// Then receive another after some time; expect one more.
TEST_F(RoceCongestion, GivesNotice) {
    inject(frame_of(marked(), packet(VRDMA_ROCE_SEND_MIDDLE, 5)));
    const auto packets = replies();
    ASSERT_EQ(packets.size(), 2u); // and a NAK: a mark counts on any packet
    EXPECT_EQ(notices(packets), 1u);
    const Arrived& cnp = packets.front();
    EXPECT_EQ(cnp.headers.opcode, VRDMA_ROCE_CNP);
    EXPECT_EQ(cnp.headers.target_qpn, peer_qpn);
    EXPECT_EQ(cnp.headers.psn, 0u);
    EXPECT_TRUE(cnp.headers.becn);
    EXPECT_FALSE(cnp.headers.migrated);
    EXPECT_EQ(cnp.path.traffic_class, 48u << 2);
    EXPECT_EQ(cnp.path.target, peer_gid_);
    EXPECT_EQ(cnp.path.target_mac, peer_mac);
    pass(2 * hca::soft::roce::notice_interval);
    for (std::uint32_t n = 0; n < 3; ++n) {
        inject(frame_of(marked(), remote(VRDMA_ROCE_WRITE_ONLY, n, 0)));
    }
    EXPECT_EQ(notices(replies()), 1u);
    EXPECT_EQ(counter(VRDMA_COUNTER_MARKED_PACKETS), 4u);
    EXPECT_EQ(counter(VRDMA_COUNTER_SENT_NOTICES), 2u);
}

// Receive packets that are not marked, and marked ones that do not come from the peer; expect no
// notice.
TEST_F(RoceCongestion, OthersGetNoNotice) {
    wire::Path path = path_;
    path.traffic_class |= VRDMA_ECN_CAPABLE;
    inject(frame_of(path, remote(VRDMA_ROCE_WRITE_ONLY, 0, 0)));
    path = marked();
    path.source = ipv4_gid(8);
    inject(frame_of(path, remote(VRDMA_ROCE_WRITE_ONLY, 1, 0)));
    EXPECT_EQ(notices(replies()), 0u);
    EXPECT_EQ(counter(VRDMA_COUNTER_MARKED_PACKETS), 0u);
}

// Receive a notice, and write more than a turn; expect the first turn to be shorter than usual, and
// all packets in the end. If the engine's clock ticks in between, try again.
TEST_F(RoceCongestion, SlowsDownByANotice) {
    constexpr std::uint32_t packets = 2 * turn;
    std::size_t first = turn;
    std::uint32_t n = 0;
    for (int tries = 0; first >= turn && tries < 1000; ++tries) {
        deliver(cnp(qp_.id().value));
        hca_->poll();
        post(VRDMA_SQ_RDMA_WRITE, packets * mtu);
        first = turn_of_qp();
        expect_rest(first, packets);
        n += packets;
        acknowledge(n - 1);
    }
    EXPECT_LT(first, turn);
    EXPECT_GE(counter(VRDMA_COUNTER_HEEDED_NOTICES), 1u);
    EXPECT_EQ(counter(VRDMA_COUNTER_RETRANSMITS), 0u);
}

// The same at a port of 100 Mb/s. Half of that is too slow to send all within fast recovery; expect
// the rest to leave only after its eight periods, or a little earlier if the poller is late. The
// engine's clock is as late as its last poll. If the test loses its processor after that, try
// again.
TEST_F(RoceCongestion, SlowsDownFromThePortsSpeed) {
    constexpr std::chrono::microseconds expected{300};
    hca_->set_link("cable", true, 100);
    Clock::duration taken{};
    for (std::uint32_t n = turn; taken < expected && n < 100 * turn; n += turn) {
        pass(hca::soft::roce::notice_interval);
        const auto begin = Clock::now();
        deliver(cnp(qp_.id().value));
        hca_->poll();
        post(VRDMA_SQ_RDMA_WRITE, turn * mtu);
        expect_rest(0, turn);
        taken = Clock::now() - begin;
        acknowledge(n - 1);
    }
    EXPECT_GE(taken, expected);
}

// The same for the responder of a READ, which is the sender of its responses.
TEST_F(RoceCongestion, SlowsDownResponses) {
    constexpr std::uint32_t packets = 2 * turn;
    std::size_t first = turn;
    std::uint32_t n = 0;
    for (int tries = 0; first >= turn && tries < 1000; ++tries, n += packets) {
        deliver(cnp(qp_.id().value));
        deliver(remote(VRDMA_ROCE_READ_REQUEST, n, packets * mtu));
        hca_->poll();
        first = sent().size();
        expect_rest(first, packets);
    }
    EXPECT_LT(first, turn);
}

// Receive a flood of notices while a message is being sent; expect all of its packets to leave.
TEST_F(RoceCongestion, StandsAFlood) {
    constexpr std::uint32_t packets = 100;
    post(VRDMA_SQ_RDMA_WRITE, packets * mtu);
    std::size_t found = 0;
    for (const auto limit = Clock::now() + std::chrono::seconds{20};
         found < packets && Clock::now() < limit;) {
        for (int i = 0; i < 64; ++i) {
            deliver(cnp(qp_.id().value));
        }
        hca_->poll();
        found += sent().size();
    }
    EXPECT_EQ(found, packets);
    EXPECT_EQ(state_of(guest_, qp_), IBV_QPS_RTS);
}

// Receive notices for an unknown QP, from another address, for a UD QP, and for one that is not
// connected yet; expect no slowdown, and each to be counted by its reason.
TEST_F(RoceCongestion, IgnoresNoticesOfOthers) {
    const GuestQp ud = guest_.create_qp(cq_, cq_, {.type = hca::QpType::ud});
    activate_ud(guest_, ud, 0x1234);
    const GuestQp idle = guest_.create_qp(cq_, cq_);
    move_to_init(guest_, idle);
    deliver(cnp(qp_.id().value ^ 0x10000));
    deliver(cnp(ud.id().value));
    deliver(cnp(idle.id().value));
    wire::Path path = path_;
    path.source = ipv4_gid(8);
    inject(frame_of(path, cnp(qp_.id().value)));
    expect_silence();
    EXPECT_EQ(counter(VRDMA_COUNTER_UNKNOWN_QPS), 1u);
    EXPECT_EQ(counter(VRDMA_COUNTER_WRONG_STATES), 2u);
    EXPECT_EQ(counter(VRDMA_COUNTER_WRONG_SOURCES), 1u);
    EXPECT_EQ(counter(VRDMA_COUNTER_HEEDED_NOTICES), 0u);
    post(VRDMA_SQ_RDMA_WRITE, turn * mtu);
    EXPECT_EQ(turn_of_qp(), turn);
}

// Receive a notice, and reset and reconnect the QP; expect it to send at full speed.
TEST_F(RoceCongestion, AResetForgets) {
    deliver(cnp(qp_.id().value));
    settle();
    EXPECT_EQ(counter(VRDMA_COUNTER_HEEDED_NOTICES), 1u);
    ASSERT_TRUE(guest_.slice().modify_qp(qp_.id(), state_attr(IBV_QPS_RESET)));
    activate();
    post(VRDMA_SQ_RDMA_WRITE, turn * mtu);
    EXPECT_EQ(turn_of_qp(), turn);
}

} // namespace
} // namespace vrdma::test
