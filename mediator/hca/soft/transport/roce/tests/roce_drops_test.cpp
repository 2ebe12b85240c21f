// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Each dropped packet is counted once, by its reason, at the QP, device or uplink to which it was
// addressed.
#include "mediator/hca/soft/transport/roce/port.h"
#include "mediator/hca/soft/transport/roce/tests/network_peer.h"

namespace vrdma::test {
namespace {

using Counts = std::vector<std::uint64_t>;

class RoceDrops : public NetworkPeer {
  protected:
    static Counts values(const vrdma_counters& counters) {
        return {std::begin(counters.value), std::end(counters.value)};
    }
    Counts of_device() { return values(guest_.slice().counters()); }
    Counts of_qp() {
        const auto counters = guest_.slice().qp_counters(qp_.id());
        return counters ? values(*counters) : Counts{};
    }
    Counts of_uplink() {
        vrdma_counters unclaimed{};
        hca_->with_port("cable",
                        [&](hca::soft::roce::Port& port) { unclaimed = port.unclaimed(); });
        return values(unclaimed);
    }
    struct Snapshot {
        Counts device;
        Counts qp;
        Counts uplink;
    };
    Snapshot look() {
        settle();
        return {of_device(), of_qp(), of_uplink()};
    }
    // The place that counts a drop, beside arrivals and answers. A QP's count is also its device's.
    enum class Where { qp, device, uplink };
    void expect_one(const Snapshot& before, vrdma_counter why, Where where) {
        const Snapshot after = look();
        const auto grown = [&](const Counts& from, const Counts& to) {
            return to[why] - from[why];
        };
        EXPECT_EQ(grown(before.qp, after.qp), where == Where::qp ? 1u : 0u) << why;
        EXPECT_EQ(grown(before.device, after.device), where != Where::uplink ? 1u : 0u) << why;
        EXPECT_EQ(grown(before.uplink, after.uplink), where == Where::uplink ? 1u : 0u) << why;
        for (std::size_t other = VRDMA_COUNTER_BAD_ICRCS; other < VRDMA_NUM_COUNTERS; ++other) {
            EXPECT_EQ(after.device[other] - before.device[other] + after.uplink[other] -
                          before.uplink[other],
                      other == why ? 1u : 0u)
                << other;
        }
        EXPECT_EQ(state_of(guest_, qp_), IBV_QPS_RTS);
    }
    void expect_dropped(const wire::Path& path, const wire::Headers& headers, vrdma_counter why,
                        Where where = Where::qp) {
        const Snapshot before = look();
        inject(frame_of(path, headers, Buffer::pattern(9, 8)));
        expect_one(before, why, where);
    }
};

// Receive a frame with a wrong last byte, once for the device and once for an unknown address;
// expect the named QP to count the first, and the uplink the second.
TEST_F(RoceDrops, WrongIcrc) {
    for (const Where where : {Where::qp, Where::uplink}) {
        wire::Path path = path_;
        path.target = where == Where::qp ? path.target : ipv4_gid(8);
        Frame frame = frame_of(path, remote(VRDMA_ROCE_WRITE_ONLY, 0, 8), Buffer::pattern(9, 8));
        frame.back() ^= std::byte{1};
        const Snapshot before = look();
        inject(frame);
        expect_one(before, VRDMA_COUNTER_BAD_ICRCS, where);
    }
}

// Receive a frame that ends within its headers, and one with an unknown opcode of UC; expect the
// device to count each.
TEST_F(RoceDrops, Malformed) {
    Frame frame = frame_of(path_, remote(VRDMA_ROCE_WRITE_ONLY, 0, 8), Buffer::pattern(9, 8));
    Snapshot before = look();
    inject({frame.begin(), frame.begin() + 40});
    expect_one(before, VRDMA_COUNTER_MALFORMED_PACKETS, Where::device);
    constexpr std::size_t bth = 14 + 20 + 8;
    frame[bth] = std::byte{VRDMA_ROCE_UC | 0x1f};
    before = look();
    inject(frame);
    expect_one(before, VRDMA_COUNTER_MALFORMED_PACKETS, Where::device);
}

// Receive packets with one wrong header each; expect its reason.
TEST_F(RoceDrops, WrongHeaders) {
    const wire::Headers good = remote(VRDMA_ROCE_WRITE_ONLY, 0, 8);
    wire::Headers headers = good;
    headers.pkey = 0x1234;
    expect_dropped(path_, headers, VRDMA_COUNTER_BAD_PKEYS);
    headers = good;
    headers.target_qpn ^= 0x10000;
    expect_dropped(path_, headers, VRDMA_COUNTER_UNKNOWN_QPS, Where::device);
    headers = good;
    headers.opcode |= VRDMA_ROCE_UC;
    expect_dropped(path_, headers, VRDMA_COUNTER_WRONG_STATES);
    wire::Path path = path_;
    path.source = ipv4_gid(8);
    expect_dropped(path, good, VRDMA_COUNTER_WRONG_SOURCES);
    path.source = guest_.gid();
    expect_dropped(path, good, VRDMA_COUNTER_WRONG_SOURCES);
    path = path_;
    path.target = ipv4_gid(8);
    expect_dropped(path, good, VRDMA_COUNTER_UNKNOWN_QPS, Where::uplink);
}

// Receive an acknowledgement when nothing is under way, and a response; expect both to be stale.
TEST_F(RoceDrops, StaleResponses) {
    for (const std::uint8_t operation : {VRDMA_ROCE_ACKNOWLEDGE, VRDMA_ROCE_ATOMIC_ACKNOWLEDGE}) {
        const Snapshot before = look();
        deliver(packet(operation, 0));
        expect_one(before, VRDMA_COUNTER_STALE_RESPONSES, Where::qp);
    }
}

// Receive a request for a QP in INIT; expect that QP to count it.
TEST_F(RoceDrops, WrongState) {
    const GuestQp idle = guest_.create_qp(cq_, cq_);
    move_to_init(guest_, idle);
    wire::Headers headers = remote(VRDMA_ROCE_WRITE_ONLY, 0, 8);
    headers.target_qpn = idle.id().value;
    expect_dropped(path_, headers, VRDMA_COUNTER_WRONG_STATES, Where::device);
    EXPECT_EQ(guest_.slice().qp_counters(idle.id())->value[VRDMA_COUNTER_WRONG_STATES], 1u);
}

// Receive datagrams for a connected QP, for none, and with a wrong Q_Key; expect each reason.
TEST_F(RoceDrops, Datagrams) {
    wire::Headers headers;
    headers.opcode = VRDMA_ROCE_UD_SEND_ONLY;
    headers.target_qpn = qp_.id().value;
    expect_dropped(path_, headers, VRDMA_COUNTER_WRONG_STATES);
    headers.target_qpn ^= 0x10000;
    expect_dropped(path_, headers, VRDMA_COUNTER_UNKNOWN_QPS, Where::device);
    const GuestQp ud = guest_.create_qp(cq_, cq_, {.type = hca::QpType::ud});
    activate_ud(guest_, ud, 0x1234);
    headers.target_qpn = ud.id().value;
    headers.qkey = 0x1235;
    expect_dropped(path_, headers, VRDMA_COUNTER_BAD_QKEYS, Where::device);
    const auto counters = guest_.slice().qp_counters(ud.id());
    ASSERT_TRUE(counters);
    EXPECT_EQ(counters->value[VRDMA_COUNTER_BAD_QKEYS], 1u);
    EXPECT_EQ(counters->value[VRDMA_COUNTER_RX_PACKETS], 1u);
}

// Cause NAKs for a gap, for a missing receive, and for a wrong key; expect each to be counted.
TEST_F(RoceDrops, NaksByKind) {
    deliver(asking(VRDMA_ROCE_SEND_ONLY, 1));
    EXPECT_EQ(reply().headers.syndrome, nak(VRDMA_NAK_PSN_SEQUENCE));
    deliver(asking(VRDMA_ROCE_SEND_ONLY, 0));
    EXPECT_EQ(replies().size(), 1u);
    wire::Headers refused = remote(VRDMA_ROCE_WRITE_ONLY, 0, 8);
    refused.rkey = 0x4711;
    deliver(refused, Buffer::pattern(9, 8));
    EXPECT_EQ(reply().headers.syndrome, nak(VRDMA_NAK_REMOTE_ACCESS));
    for (const Counts& counts : {of_device(), of_qp()}) {
        EXPECT_EQ(counts[VRDMA_COUNTER_SENT_SEQUENCE_NAKS], 1u);
        EXPECT_EQ(counts[VRDMA_COUNTER_SENT_RNR_NAKS], 1u);
        EXPECT_EQ(counts[VRDMA_COUNTER_SENT_ACCESS_NAKS], 1u);
        EXPECT_EQ(counts[VRDMA_COUNTER_SENT_INVALID_NAKS], 0u);
        EXPECT_EQ(counts[VRDMA_COUNTER_REFUSED_REQUESTS], 1u);
        EXPECT_EQ(counts[VRDMA_COUNTER_TX_PACKETS], 3u);
        EXPECT_EQ(counts[VRDMA_COUNTER_RX_PACKETS], 3u);
    }
    EXPECT_FALSE(guest_.slice().qp_counters(Qpn{qp_.id().value ^ 1}));
}

} // namespace
} // namespace vrdma::test
