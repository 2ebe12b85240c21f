// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Connections that are saved and restored while their peer on the network continues.
#include "mediator/hca/soft/transport/roce/connection_state.h"
#include "mediator/hca/soft/transport/roce/tests/network_peer.h"

namespace vrdma::test {
namespace {

using hca::soft::roce::SavedConnection;

class RoceMigration : public NetworkPeer {
  protected:
    // The peer is told that it need not wait, and which packet is expected.
    void move(std::uint32_t expected = 0) {
        guest_.migrate(*hca_);
        expect_told(expected);
    }
    void expect_told(std::uint32_t expected) {
        expect_acknowledge(reply(), expected, nak(VRDMA_NAK_PSN_SEQUENCE));
    }

    // Saves the connection of a QP with three packets under way, one of which was acknowledged, and
    // a READ of the peer.
    SavedConnection busy() {
        post(VRDMA_SQ_RDMA_WRITE, 3 * mtu);
        deliver(remote(VRDMA_ROCE_READ_REQUEST, 0, 2 * mtu));
        replies();
        answer(0);
        settle();
        guest_.slice().freeze();
        return saved();
    }

    SavedConnection saved() {
        return *hca::soft::roce::decode(guest_.slice().save_connection(qp_.id()));
    }
    bool is_refused(std::span<const std::byte> state) {
        return guest_.slice().restore_connection(qp_.id(), state).error() ==
               std::errc::invalid_argument;
    }
};

// Migrate after the first of three packets was acknowledged; expect the other two to be sent again
// with their PSNs, and the completion when they are acknowledged.
TEST_F(RoceMigration, SendsWhatWasNotAcknowledged) {
    post(VRDMA_SQ_RDMA_WRITE, 3 * mtu);
    EXPECT_EQ(replies().size(), 3u);
    answer(0);
    settle();
    guest_.migrate(*hca_);
    const auto again = replies();
    ASSERT_EQ(again.size(), 3u);
    EXPECT_EQ(again[0].headers.psn, psn(1));
    EXPECT_EQ(again[1].headers.psn, psn(2));
    expect_acknowledge(again[2], 0, nak(VRDMA_NAK_PSN_SEQUENCE));
    answer(2);
    settle();
    const auto completion = cq_.poll();
    ASSERT_TRUE(completion);
    EXPECT_EQ(completion->status, IBV_WC_SUCCESS);
    post(VRDMA_SQ_RDMA_WRITE, 1);
    EXPECT_EQ(reply().headers.psn, psn(3));
}

// Receive the first of three packets of a SEND, migrate, receive the others; expect the complete
// message.
TEST_F(RoceMigration, GoesOnInTheMiddleOfAMessage) {
    post_receive(4096, 3 * mtu);
    const Payload piece = Buffer::pattern(5, mtu);
    deliver(packet(VRDMA_ROCE_SEND_FIRST, 0), piece);
    settle();
    move(1);
    deliver(packet(VRDMA_ROCE_SEND_MIDDLE, 1), piece);
    deliver(asking(VRDMA_ROCE_SEND_LAST, 2), piece);
    expect_acknowledge(reply(), 2, ack);
    expect_received(3 * mtu);
    for (std::uint32_t i = 0; i < 3; ++i) {
        EXPECT_EQ(mr_.buffer.read(4096 + i * mtu, mtu), piece);
    }
}

// Receive a packet while the guest is frozen; expect an RNR NAK and an unchanged connection, and
// when the guest is thawed a NAK for that packet. Receive the next packet without it; expect
// another NAK.
TEST_F(RoceMigration, TellsThePeerToWait) {
    post_receive(4096, mtu);
    guest_.slice().freeze();
    const std::vector<std::byte> before = encode(saved());
    deliver(asking(VRDMA_ROCE_SEND_ONLY, 0), Payload(8));
    const Arrived told = reply();
    EXPECT_EQ(told.operation(), VRDMA_ROCE_ACKNOWLEDGE);
    EXPECT_EQ(told.headers.psn, psn(0));
    EXPECT_EQ(VRDMA_GET(VRDMA_SYNDROME_TYPE, told.headers.syndrome), VRDMA_SYNDROME_RNR_NAK);
    EXPECT_EQ(counter(VRDMA_COUNTER_SENT_RNR_NAKS), 1u);
    EXPECT_EQ(encode(saved()), before);
    guest_.thaw();
    expect_told(0);
    EXPECT_FALSE(cq_.poll());
    deliver(asking(VRDMA_ROCE_SEND_ONLY, 1), Payload(8));
    expect_told(0);
    deliver(asking(VRDMA_ROCE_SEND_ONLY, 0), Payload(8));
    expect_acknowledge(reply(), 0, ack);
}

// Migrate to where the peer's Ethernet address is not known; expect the NAK as soon as it is found.
TEST_F(RoceMigration, TellsThePeerOnceItIsFound) {
    hca_->with_port("cable", [&](auto& port) { port.set_neighbour(peer_gid_, std::nullopt); });
    guest_.migrate(*hca_);
    expect_silence();
    hca_->with_port("cable", [&](auto& port) {
        EXPECT_EQ(port.take_unknown().size(), 1u);
        port.set_neighbour(peer_gid_, peer_mac);
    });
    expect_told(0);
}

// Receive packets while the guest is frozen: a late one, one after a gap, and a malformed one;
// expect no answer.
TEST_F(RoceMigration, FrozenOneAnswersOnlyWhatItExpects) {
    post_receive(4096, mtu);
    deliver(asking(VRDMA_ROCE_SEND_ONLY, 0), Payload(8));
    expect_acknowledge(reply(), 0, ack);
    constexpr std::uint8_t flush = 0x1c;
    guest_.slice().freeze();
    deliver(asking(VRDMA_ROCE_SEND_ONLY, 0), Payload(8));
    deliver(asking(VRDMA_ROCE_SEND_ONLY, 2), Payload(8));
    deliver(asking(flush, 1));
    expect_silence();
}

// Freeze the guest while it answers a READ, and receive the next packet; expect no answer, which
// would say that the peer has all of the READ. Receive the READ again, for what the peer lacks;
// expect the peer to be told to wait, and a thawed guest to answer from there on.
TEST_F(RoceMigration, FrozenOneOwesAnswersFirst) {
    const auto packets = static_cast<std::uint32_t>(mr_.buffer.size() / mtu);
    deliver(remote(VRDMA_ROCE_READ_REQUEST, 0, packets * mtu));
    std::size_t answered = 0;
    while (answered == 0) {
        hca_->poll();
        answered = sent().size();
    }
    guest_.slice().freeze();
    answered += sent().size();
    ASSERT_LT(answered, packets);
    deliver(asking(VRDMA_ROCE_SEND_ONLY, packets), Payload(8));
    expect_silence();

    const std::vector<std::byte> before = encode(saved());
    const auto lacks = static_cast<std::uint32_t>(answered) - 1;
    const auto again = remote(VRDMA_ROCE_READ_REQUEST, lacks, (packets - lacks) * mtu);
    deliver(again);
    const Arrived told = reply();
    EXPECT_EQ(told.operation(), VRDMA_ROCE_ACKNOWLEDGE);
    EXPECT_EQ(told.headers.psn, psn(lacks));
    EXPECT_EQ(VRDMA_GET(VRDMA_SYNDROME_TYPE, told.headers.syndrome), VRDMA_SYNDROME_RNR_NAK);
    EXPECT_EQ(encode(saved()), before);
    guest_.thaw();
    deliver(again);
    const auto rest = replies();
    ASSERT_FALSE(rest.empty());
    EXPECT_EQ(rest.front().headers.psn, psn(lacks));
    EXPECT_TRUE(std::ranges::any_of(
        rest, [&](const Arrived& packet) { return packet.headers.psn == psn(packets - 1); }));
}

// Its QP limits its RNR retries, as its peer probably does.
class ImpatientMigration : public NetworkPeer {
  protected:
    ImpatientMigration() : NetworkPeer{{.rnr_retry = 6}} {}
};

// Receive a packet while the guest is frozen; expect no answer before the guest is thawed.
TEST_F(ImpatientMigration, NobodyIsToldToWait) {
    post_receive(4096, mtu);
    guest_.slice().freeze();
    deliver(asking(VRDMA_ROCE_SEND_ONLY, 0), Payload(8));
    expect_silence();
    guest_.thaw();
    expect_acknowledge(reply(), 0, nak(VRDMA_NAK_PSN_SEQUENCE));
}

class UcMigration : public NetworkPeer {
  protected:
    UcMigration() : NetworkPeer{{.type = hca::QpType::uc}} {}
};

// Receive a packet of a UC QP while the guest is frozen, and migrate; expect no packet.
TEST_F(UcMigration, TellsThePeerNothing) {
    guest_.slice().freeze();
    deliver(packet(VRDMA_ROCE_SEND_ONLY, 0), Payload(8));
    expect_silence();
    guest_.thaw();
    guest_.migrate(*hca_);
    expect_silence();
}

// Receive an atomic, migrate, and receive it again; expect the original value in both answers, and
// the word to have changed once.
TEST_F(RoceMigration, ReplaysAtomics) {
    *mr_.buffer.at<std::uint64_t>(0) = 40;
    wire::Headers add_two = remote(VRDMA_ROCE_FETCH_ADD, 0, 0);
    add_two.swap_add = 2;
    deliver(add_two);
    EXPECT_EQ(reply().headers.original, 40u);
    move(1);
    deliver(add_two);
    EXPECT_EQ(reply().headers.original, 40u);
    EXPECT_EQ(*mr_.buffer.at<std::uint64_t>(0), 42u);
}

// Save, restore and save a connection with operations under way in both directions; expect equal
// states.
TEST_F(RoceMigration, RoundTrip) {
    const SavedConnection before = busy();
    EXPECT_EQ(before.state.sent, 1u);
    EXPECT_EQ(before.state.fetches, 1u);
    EXPECT_EQ(before.state.snd_una, psn(1));
    guest_.thaw();
    guest_.migrate(*hca_);
    guest_.slice().freeze();
    EXPECT_EQ(encode(saved()), encode(before));
}

// States that no connection saves; expect EINVAL for each.
TEST_F(RoceMigration, BadStatesAreRefused) {
    const SavedConnection good = busy();
    // Changes the state, with its numbers of entries as they then are.
    const auto refused = [&](auto&& change) {
        SavedConnection bad = good;
        change(bad);
        bad.state.sent = static_cast<std::uint32_t>(bad.sent.size());
        bad.state.fetches = static_cast<std::uint32_t>(bad.fetches.size());
        return is_refused(encode(bad));
    };
    EXPECT_TRUE(refused([](auto& bad) { bad.state.snd_una = 1 << 24; }));
    EXPECT_TRUE(refused([](auto& bad) { bad.state.expected = 1 << 24; }));
    EXPECT_TRUE(refused([](auto& bad) { bad.state.msn = 1 << 24; }));
    EXPECT_TRUE(refused([](auto& bad) { bad.state.snd_nxt = bad.state.snd_max; }));
    EXPECT_TRUE(refused([](auto& bad) { bad.state.snd_max = psn(4); }));
    EXPECT_TRUE(refused([](auto& bad) { bad.state.snd_una = bad.state.snd_nxt = psn(4); }));
    EXPECT_TRUE(refused([](auto& bad) { bad.state.open = 2; }));
    EXPECT_TRUE(refused([](auto& bad) { bad.state.told_gap = 2; }));
    EXPECT_TRUE(refused([](auto& bad) { bad.state.ack_due = 2; }));
    EXPECT_TRUE(refused([](auto& bad) { bad.state.reserved = 1; }));
    EXPECT_TRUE(refused([](auto& bad) { bad.state.reserved_2 = 1; }));
    EXPECT_TRUE(refused([](auto& bad) { bad.state.version = 2; }));
    EXPECT_TRUE(refused([](auto& bad) { bad.state.offset = bad.state.message.length + 1; }));
    EXPECT_TRUE(refused([](auto& bad) { bad.state.message.opcode = VRDMA_SQ_BIND_MW; }));
    EXPECT_TRUE(refused([](auto& bad) { bad.state.message.opcode = 200; }));
    EXPECT_TRUE(refused([](auto& bad) { bad.state.message.reserved = 1; }));
    EXPECT_TRUE(refused([](auto& bad) { bad.sent.clear(); }));
    EXPECT_TRUE(refused([](auto& bad) { bad.sent.resize(33, bad.sent[0]); }));
    EXPECT_TRUE(refused([](auto& bad) { bad.sent.push_back(bad.sent[0]); }));
    EXPECT_TRUE(refused([](auto& bad) { bad.sent[0].index += 1; }));
    EXPECT_TRUE(refused([](auto& bad) { bad.sent[0].opcode = VRDMA_SQ_LOCAL_INV; }));
    EXPECT_TRUE(refused([](auto& bad) { bad.sent[0].length = 1ull << 32; }));
    EXPECT_TRUE(refused([](auto& bad) { bad.sent[0].last = bad.sent[0].first; }));
    EXPECT_TRUE(refused([](auto& bad) { bad.sent[0].signaled = 2; }));
    EXPECT_TRUE(refused([](auto& bad) { bad.fetches.resize(17, bad.fetches[0]); }));
    EXPECT_TRUE(refused([](auto& bad) { bad.fetches[0].message.opcode = VRDMA_SQ_SEND; }));
    EXPECT_TRUE(refused([](auto& bad) { bad.fetches[0].message.length = 1ull << 32; }));
    EXPECT_TRUE(refused([](auto& bad) { bad.fetches[0].last = bad.fetches[0].first; }));
    EXPECT_TRUE(refused([](auto& bad) { bad.fetches[0].answered = 3; }));
    EXPECT_TRUE(refused([](auto& bad) { bad.fetches[0].begin = 3; }));
    EXPECT_TRUE(refused([](auto& bad) { bad.fetches[0].repeated = 2; }));
    EXPECT_TRUE(refused([](auto& bad) { bad.fetches[0].reserved = 1; }));
}

// A state that is cut at each of its bytes, that is longer, or that has more or fewer entries than
// it says; expect EINVAL for each.
TEST_F(RoceMigration, BadLengthsAreRefused) {
    SavedConnection bad = busy();
    std::vector<std::byte> bytes = encode(bad);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
        EXPECT_TRUE(is_refused(std::span{bytes}.first(size))) << size;
    }
    bytes.push_back(std::byte{0});
    EXPECT_TRUE(is_refused(bytes));
    bad.state.sent = UINT32_MAX;
    EXPECT_TRUE(is_refused(encode(bad)));
    bad.state.sent = 0;
    EXPECT_TRUE(is_refused(encode(bad)));
}

// A connected QP migrates to a host where its device has no uplink; expect EINVAL.
TEST_F(RoceMigration, WantsAnUplink) {
    guest_.slice().freeze();
    const hca::QpState state = guest_.slice().save_qp(qp_.id());
    EXPECT_EQ(state.connected, 1u);
    hca::soft::Config config;
    config.threads = false;
    const auto bare = std::move(*hca::soft::SoftHca::create(config));
    Guest other{*bare, "other", ipv4_gid(1)};
    GuestCq cq = other.create_cq();
    const GuestQp qp = other.create_qp(cq, cq);
    other.slice().freeze();
    EXPECT_EQ(other.slice().restore_qp(qp.id(), state, {}).error(), std::errc::invalid_argument);
}

} // namespace
} // namespace vrdma::test
