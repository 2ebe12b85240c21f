// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Assignment of packets to QPs: packets for nobody on this host change nothing. Also peers that
// move.
#include <poll.h>

#include <map>

#include "mediator/hca/soft/transport/roce/tests/network_peer.h"

namespace vrdma::test {
namespace {

class RocePort : public NetworkPeer {
  protected:
    RocePort() {
        mr_.buffer.fill(1);
        post_receive(0, 1000);
    }

    void expect_untouched() {
        expect_silence();
        EXPECT_FALSE(cq_.poll());
        EXPECT_EQ(state_of(guest_, qp_), IBV_QPS_RTS);
        EXPECT_EQ(mr_.buffer.read(0, 1 << 16), Buffer::pattern(1, 1 << 16));
        deliver(asking(VRDMA_ROCE_SEND_ONLY, 0));
        expect_acknowledge(reply(), 0, ack);
        expect_received(0);
    }

    static constexpr wire::Mac device_mac{}; // the guest's
    static constexpr wire::Mac other_mac{2, 0, 0, 0, 0, 0x66};
    static constexpr wire::Mac broadcast{0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    static constexpr wire::Mac group_mac{0x33, 0x33, 0, 0, 0, 7};
    // As for an interface that the guest shares with others.
    void check_macs(const wire::Mac& first = other_mac, const wire::Mac& now = other_mac) {
        hca_->with_port("cable", [&](auto& port) { port.set_macs(first, now); });
    }

    // Each of these requests would be executed, or refused, if it came from the peer.
    std::vector<wire::Headers> requests() const {
        wire::Headers refused = remote(VRDMA_ROCE_WRITE_ONLY, 0, 8);
        refused.rkey = 0x4711;
        return {remote(VRDMA_ROCE_WRITE_ONLY, 0, 8), refused, packet(VRDMA_ROCE_SEND_MIDDLE, 0),
                asking(VRDMA_ROCE_SEND_ONLY, 5)};
    }
    void deliver_by(const wire::Path& path) {
        for (const wire::Headers& headers : requests()) {
            inject(frame_of(path, headers, Buffer::pattern(9, 8)));
        }
    }
};

// Receive packets for two QPs and for none, by turns in one segmented frame; expect each QP to get
// its own, in order.
TEST_F(RocePort, SegmentsOfSeveralQueuePairs) {
    constexpr std::uint32_t packets = 5;
    GuestQp first = std::move(qp_);
    renew();
    const vrdma_sge to = mr_.sge(0, 100);
    for (std::uint32_t n = 0; n < packets; ++n) {
        post_receive(0, 100);
        if (n != 0) { // it has one
            first.post_recv({&to, 1});
        }
        wire::Headers headers = asking(VRDMA_ROCE_SEND_ONLY, n);
        const std::uint32_t second = headers.target_qpn;
        for (const std::uint32_t qpn : {first.id().value, second, second ^ 0x1000}) {
            headers.target_qpn = qpn;
            deliver(headers, Payload(n));
        }
    }
    settle();
    std::map<std::uint32_t, std::vector<std::uint32_t>> received;
    while (const auto completion = cq_.poll()) {
        EXPECT_EQ(completion->status, IBV_WC_SUCCESS);
        received[completion->qpn].push_back(completion->byte_len);
    }
    const std::vector<std::uint32_t> each{0, 1, 2, 3, 4};
    EXPECT_EQ(received[first.id().value], each);
    EXPECT_EQ(received[qp_.id().value], each);
    EXPECT_EQ(counter(VRDMA_COUNTER_UNKNOWN_QPS), packets);
}

// One packet of a segmented frame has a wrong ICRC; expect those before it to be accepted, and the
// others after the peer has sent it again.
TEST_F(RocePort, AWrongSegment) {
    Frame wrong = frame_of(path_, remote(VRDMA_ROCE_WRITE_MIDDLE, 1, 0), Payload(mtu));
    wrong.back() ^= std::byte{1};
    wire::Headers first = remote(VRDMA_ROCE_WRITE_FIRST, 0, 3 * mtu);
    first.ack_request = false;
    deliver(first, Buffer::pattern(9, mtu));
    inject(wrong);
    deliver(asking(VRDMA_ROCE_WRITE_LAST, 2), Payload(mtu));
    expect_acknowledge(reply(), 1, nak(VRDMA_NAK_PSN_SEQUENCE));
    EXPECT_EQ(mr_.buffer.read(0, mtu), Buffer::pattern(9, mtu));
    EXPECT_EQ(counter(VRDMA_COUNTER_BAD_ICRCS), 1);
}

// Receive packets from another address; expect nothing to change.
TEST_F(RocePort, WrongSource) {
    wire::Path path = path_;
    path.source = ipv4_gid(8);
    deliver_by(path);
    expect_untouched();
}

// Receive packets to another address, and packets from the peer by the other RoCE version; expect
// nothing to change.
TEST_F(RocePort, WrongTarget) {
    wire::Path path = path_;
    path.target = ipv4_gid(8);
    deliver_by(path);
    path = path_;
    path.type = wire::Encapsulation::roce_v1;
    deliver_by(path);
    expect_untouched();
}

// The same for another host's Ethernet address, for broadcast and for a group; expect nothing to
// change, and frames to the device's own address to be accepted.
TEST_F(RocePort, WrongTargetMac) {
    check_macs();
    wire::Path path = path_;
    for (const wire::Mac& mac : {other_mac, broadcast, group_mac}) {
        path.target_mac = mac;
        deliver_by(path);
    }
    path_.target_mac = device_mac;
    expect_untouched();
}

// A device has the interface's Ethernet address, which has changed since; expect frames to either
// address to be accepted. For a device with its own address, only frames to that address are.
TEST_F(RocePort, TheInterfacesMacMayChange) {
    check_macs(device_mac, other_mac);
    for (const wire::Mac& mac : {device_mac, other_mac}) {
        path_.target_mac = mac;
        post_receive(0, 1000);
        deliver(asking(VRDMA_ROCE_SEND_ONLY, mac == device_mac ? 0 : 1));
        EXPECT_EQ(reply().operation(), VRDMA_ROCE_ACKNOWLEDGE);
    }
    check_macs(peer_mac, other_mac);
    deliver(asking(VRDMA_ROCE_SEND_ONLY, 2));
    expect_silence();
}

// Receive datagrams for one QP by Ethernet addresses of groups and of other hosts, and datagrams to
// a group by other addresses than the group's; expect only those to arrive whose GID and Ethernet
// address belong together.
TEST_F(RocePort, DatagramsByAnothersMac) {
    check_macs();
    GuestQp ud = guest_.create_qp(cq_, cq_, {.type = hca::QpType::ud});
    activate_ud(guest_, ud, 0x1234);
    const hca::Gid group{0xff, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7};
    ASSERT_TRUE(guest_.slice().attach_multicast(ud.id(), group));
    wire::Headers headers;
    headers.opcode = VRDMA_ROCE_UD_SEND_ONLY;
    headers.qkey = 0x1234;
    const vrdma_sge to = mr_.sge(0, 1000);
    ud.post_recv({&to, 1});
    ud.post_recv({&to, 1});
    for (const bool to_group : {false, true}) {
        wire::Path path = path_;
        headers.target_qpn = to_group ? VRDMA_MULTICAST_QPN : ud.id().value;
        if (to_group) {
            path.source = {0xfd, 9};
            path.target = group;
        }
        for (const wire::Mac& mac : {other_mac, broadcast, to_group ? device_mac : group_mac}) {
            path.target_mac = mac;
            inject(frame_of(path, headers));
        }
        expect_silence();
        EXPECT_FALSE(cq_.poll());
        path.target_mac = to_group ? group_mac : device_mac;
        inject(frame_of(path, headers));
        expect_silence();
        EXPECT_TRUE(cq_.poll());
    }
}

// Receive packets from the network with the address of a device of this mediator, for a QP whose
// peer is that device; expect nothing to change, because its packets do not come from the network.
TEST_F(RocePort, SpoofedAsANeighbour) {
    Guest neighbour{*hca_, "neighbour", ipv4_gid(3), Guest::default_memory(), {}, "cable"};
    GuestQp qp = guest_.create_qp(cq_, cq_);
    connect(guest_, qp, neighbour.gid(), Qpn{peer_qpn});
    wire::Path path = path_;
    path.source = neighbour.gid();
    wire::Headers headers = remote(VRDMA_ROCE_WRITE_ONLY, 0, 8);
    headers.target_qpn = qp.id().value;
    headers.psn = 0;
    inject(frame_of(path, headers, Buffer::pattern(9, 8)));
    expect_silence();
    EXPECT_EQ(state_of(guest_, qp), IBV_QPS_RTS);
    expect_untouched();
}

// Receive packets with another P_Key, for an unknown QPN, of another transport; expect nothing to
// change.
TEST_F(RocePort, WrongHeaders) {
    for (wire::Headers headers : requests()) {
        headers.pkey = 0x1234;
        deliver(headers, Buffer::pattern(9, 8));
    }
    for (wire::Headers headers : requests()) {
        headers.target_qpn ^= 0x10000;
        deliver(headers, Buffer::pattern(9, 8));
    }
    for (wire::Headers headers : requests()) {
        headers.opcode |= VRDMA_ROCE_UC;
        deliver(headers, Buffer::pattern(9, 8));
    }
    expect_untouched();
}

// Receive a packet of a limited member of the partition; expect this full member to accept it (IBA
// 10.9.3).
TEST_F(RocePort, TakesPacketsOfLimitedMembers) {
    post_receive(0, 100);
    wire::Headers headers = asking(VRDMA_ROCE_SEND_ONLY, 0);
    headers.pkey = 0x7fff;
    deliver(headers, Buffer::pattern(9, 8));
    expect_acknowledge(reply(), 0, ack);
    expect_received(8);
    EXPECT_EQ(counter(VRDMA_COUNTER_BAD_PKEYS), 0u);
}

// Receive frames with a different wrong byte each, and of every shorter length.
TEST_F(RocePort, DamagedFrames) {
    const Frame frame = frame_of(path_, remote(VRDMA_ROCE_WRITE_ONLY, 0, 8), Buffer::pattern(9, 8));
    constexpr std::size_t ip = 14; // Ethernet checks the bytes before
    // The ICRC does not cover UDP's checksum, and the byte of FECN and BECN (A17.3.3).
    constexpr std::size_t checksum = ip + 20 + 6;
    constexpr std::size_t congestion = ip + 20 + 8 + 4;
    for (std::size_t at = ip; at < frame.size(); ++at) {
        Frame damaged = frame;
        damaged[at] ^= std::byte{0x80};
        if (at != checksum && at != checksum + 1 && at != congestion) {
            inject(damaged);
        }
    }
    for (std::size_t size = 1; size < frame.size(); ++size) {
        inject({frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(size)});
        settle();
    }
    expect_untouched();
}

// Receive requests for the sending half of an XRC connection; expect no answer.
TEST_F(RocePort, XrcInitiatorsTakeNoRequests) {
    GuestQp qp = guest_.create_qp(cq_, cq_, QpShape::xrc_send());
    connect(guest_, qp, peer_gid_, Qpn{peer_qpn});
    wire::Headers headers = remote(VRDMA_ROCE_WRITE_ONLY, 0, 8);
    headers.opcode |= VRDMA_ROCE_XRC;
    headers.target_qpn = qp.id().value;
    headers.psn = 0;
    deliver(headers, Buffer::pattern(9, 8));
    headers.rkey = 0x4711;
    deliver(headers, Buffer::pattern(9, 8));
    expect_silence();
    EXPECT_EQ(state_of(guest_, qp), IBV_QPS_RTS);
    expect_untouched();
}

// Receive a long READ, and change the state by which peers are looked up while it is answered;
// expect the whole response to go to the peer's Ethernet address.
TEST_F(RocePort, AnswersKeepTheirTarget) {
    constexpr std::uint32_t asked = 100;
    deliver(remote(VRDMA_ROCE_READ_REQUEST, 0, asked * mtu));
    hca_->poll();
    const GuestQp other = guest_.create_qp(cq_, cq_);
    move_to_init(guest_, other);
    qp_.post_send({});
    for (const Arrived& packet : replies()) {
        EXPECT_EQ(packet.path.target_mac, peer_mac);
    }
}

// Send to a peer whose Ethernet address is unknown; expect the resolver to be notified of it until
// it has taken the request, and the packet to leave when the address is known.
TEST_F(RocePort, AsksForThePeer) {
    const auto with_port = [&](auto use) { hca_->with_port("cable", use); };
    with_port([&](auto& port) { port.set_neighbour(peer_gid_, std::nullopt); });
    renew();
    qp_.post_send({});
    expect_silence();
    with_port([&](auto& port) {
        pollfd signal{port.unknown_fd(), POLLIN, 0};
        EXPECT_EQ(::poll(&signal, 1, 0), 1);
        const auto unknown = port.take_unknown();
        ASSERT_EQ(unknown.size(), 1u);
        EXPECT_EQ(unknown[0].target, peer_gid_);
        EXPECT_EQ(::poll(&signal, 1, 0), 0);
        port.set_neighbour(peer_gid_, peer_mac);
    });
    EXPECT_EQ(reply().path.target_mac, peer_mac);
}

// One device needs many more addresses than can be requested at a time, and another needs its
// peer's; expect the second request to be taken at once, and as many of the first device as it may
// have.
TEST_F(RocePort, WhoAsksForManyKeepsNobodyFromAsking) {
    constexpr unsigned many = 300;
    const auto address = [&](unsigned n) {
        hca::Gid gid = peer_gid_;
        gid[13] = static_cast<std::uint8_t>(1 + n / 250);
        gid[15] = static_cast<std::uint8_t>(n % 250);
        return gid;
    };
    Guest asker{*hca_, "asker", ipv4_gid(3), Guest::default_memory(), {}, "cable"};
    GuestCq cq = asker.create_cq(256);
    std::vector<GuestQp> qps;
    for (unsigned n = 0; n < many; ++n) {
        qps.push_back(asker.create_qp(cq, cq));
        connect(asker, qps.back(), address(n), Qpn{1});
        qps.back().post_send({});
    }
    expect_silence();
    hca_->with_port("cable", [&](auto& port) { port.set_neighbour(peer_gid_, std::nullopt); });
    renew();
    qp_.post_send({});
    expect_silence();
    std::vector<hca::Gid> asked;
    const auto take = [&] {
        std::vector<hca::soft::roce::Unknown> unknown;
        hca_->with_port("cable", [&](auto& port) { unknown = port.take_unknown(); });
        std::ranges::transform(unknown, std::back_inserter(asked),
                               &hca::soft::roce::Unknown::target);
        return !unknown.empty();
    };
    ASSERT_TRUE(take());
    EXPECT_EQ(std::ranges::count(asked, peer_gid_), 1);
    while (take()) {
    }
    EXPECT_EQ(asked.size(), 1 + hca::soft::roce::Questions::most);
    std::ranges::sort(asked);
    EXPECT_EQ(std::ranges::adjacent_find(asked), asked.end()) << "each once";
}

// While a message is under way, the peer's Ethernet address turns out to be outdated; expect the
// resolver to be notified again, and the next packet to go to the new address.
TEST_F(RocePort, AsksForThePeerAgain) {
    constexpr wire::Mac moved_to{2, 0, 0, 0, 0, 0x77};
    qp_.post_send({});
    EXPECT_EQ(reply().path.target_mac, peer_mac);
    dynamic_cast<Cable::End&>(*end_).outdate(peer_mac);
    qp_.post_send({});
    expect_silence();
    hca_->with_port("cable", [&](auto& port) {
        const auto unknown = port.take_unknown();
        ASSERT_EQ(unknown.size(), 1u);
        EXPECT_EQ(unknown[0].target, peer_gid_);
        port.set_neighbour(peer_gid_, moved_to);
    });
    EXPECT_EQ(reply().path.target_mac, moved_to);
}

// Acknowledge one of two messages, then the other; expect a later deadline after the first, and
// none after both.
TEST_F(RocePort, NobodyIsWokenForWhatWasAnswered) {
    const auto settled = [&] {
        Clock::time_point next;
        hca_->with_port("cable", [&](auto& port) {
            port.settle_timers();
            next = port.deadline();
        });
        return next;
    };
    post(VRDMA_SQ_RDMA_WRITE, 8);
    post(VRDMA_SQ_RDMA_WRITE, 8);
    EXPECT_EQ(replies().size(), 2u);
    const Clock::time_point both = settled();
    ASSERT_LT(both, Clock::time_point::max());
    answer(0);
    expect_silence();
    const Clock::time_point one = settled();
    EXPECT_GT(one, both);
    EXPECT_LT(one, Clock::time_point::max());
    answer(1);
    expect_silence();
    EXPECT_EQ(settled(), Clock::time_point::max());
}

// Connect to a peer on the network with the Ethernet address that stands for this host; expect the
// peer to be looked up as if none had been given.
TEST_F(RocePort, NobodyOnTheNetworkIsHere) {
    GuestQp qp = guest_.create_qp(cq_, cq_);
    move_to_init(guest_, qp);
    vrdma_qp_attr attr = rtr_attr(peer_gid_, Qpn{peer_qpn});
    std::ranges::copy(hca::soft::roce::LoopbackQueue::address, std::begin(attr.av.dmac));
    ASSERT_TRUE(guest_.slice().modify_qp(qp.id(), attr));
    attr = rts_attr();
    attr.timeout = Terms{}.timeout;
    ASSERT_TRUE(guest_.slice().modify_qp(qp.id(), attr));
    qp.post_send({});
    EXPECT_EQ(reply().path.target_mac, peer_mac);
}

// Connect to a device of this mediator, which is then destroyed. Packets of its successor come from
// the network; expect answers to go there, though this side never sent anything.
TEST_F(RocePort, PeerMovesAway) {
    auto neighbour = std::make_unique<Guest>(*hca_, "neighbour", ipv4_gid(3),
                                             Guest::default_memory(), hca::QpnRange{}, "cable");
    GuestQp qp = guest_.create_qp(cq_, cq_);
    connect(guest_, qp, neighbour->gid(), Qpn{peer_qpn});
    neighbour.reset();
    wire::Path path = path_;
    path.source = ipv4_gid(3);
    wire::Headers headers = asking(VRDMA_ROCE_SEND_ONLY, 0);
    headers.target_qpn = qp.id().value;
    headers.psn = 0;
    qp.post_recv({});
    inject(frame_of(path, headers));
    const Arrived answer = reply();
    EXPECT_EQ(answer.operation(), VRDMA_ROCE_ACKNOWLEDGE);
    EXPECT_EQ(answer.path.target, ipv4_gid(3));
    EXPECT_EQ(answer.path.source, guest_.gid());
    EXPECT_EQ(answer.path.target_mac, peer_mac);
}

} // namespace
} // namespace vrdma::test
