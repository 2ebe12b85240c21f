// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A guest with its address in a VLAN: the tags of its packets, and the packets that it accepts.
#include "mediator/hca/soft/transport/roce/tests/network_peer.h"

namespace vrdma::test {
namespace {

constexpr std::uint16_t vlan = 7;

class RoceVlan : public NetworkPeer {
  protected:
    static constexpr std::uint32_t qkey = 0x1234;

    RoceVlan() {
        mr_.buffer.fill(1);
        move_to(vlan);
        renew();
        post_receive(0, 1000);
    }

    void move_to(std::uint16_t to) {
        ASSERT_TRUE(guest_.slice().set_gid(0, VRDMA_GID_ROCE_V2, guest_.gid(), to));
        set_neighbour(to, peer_mac);
    }
    void set_neighbour(std::uint16_t of, const std::optional<wire::Mac>& mac) {
        hca_->with_port("cable", [&](auto& port) { port.set_neighbour(peer_gid_, mac, of); });
    }

    void deliver_with(std::optional<std::uint16_t> tag, const wire::Headers& headers,
                      const Payload& payload = {}) {
        wire::Path path = path_;
        path.vlan = tag;
        inject(frame_of(path, headers, payload));
    }
    void expect_answered(std::optional<std::uint16_t> tag, std::optional<std::uint16_t> by) {
        deliver_with(tag, asking(VRDMA_ROCE_SEND_ONLY, 0));
        const Arrived answer = reply();
        expect_acknowledge(answer, 0, ack);
        EXPECT_EQ(answer.path.vlan, by);
        expect_received(0);
    }
    // Expects packets with this tag to be ignored.
    void expect_unheard(std::optional<std::uint16_t> tag) {
        deliver_with(tag, remote(VRDMA_ROCE_WRITE_ONLY, 0, 8), Buffer::pattern(9, 8));
        deliver_with(tag, asking(VRDMA_ROCE_SEND_ONLY, 5));
        expect_silence();
        EXPECT_FALSE(cq_.poll());
        EXPECT_EQ(mr_.buffer.read(0, 8), Buffer::pattern(1, 8));
        EXPECT_EQ(state_of(guest_, qp_), IBV_QPS_RTS);
    }
};

// Send, and receive the acknowledgement in the VLAN; expect the tag, and the message to complete.
TEST_F(RoceVlan, RequestsCarryTheTag) {
    post(VRDMA_SQ_SEND, 8);
    EXPECT_EQ(reply().path.vlan, vlan);
    wire::Headers headers = packet(VRDMA_ROCE_ACKNOWLEDGE, 0);
    headers.syndrome = ack;
    deliver(headers); // without it
    expect_silence();
    EXPECT_FALSE(cq_.poll());
    deliver_with(vlan, headers);
    expect_silence();
    const auto completion = cq_.poll();
    ASSERT_TRUE(completion);
    EXPECT_EQ(completion->status, IBV_WC_SUCCESS);
}

// Receive requests without a tag, with a priority tag, with another VLAN's tag, and with the right
// one; expect only the last to be answered, with the same tag.
TEST_F(RoceVlan, OnlyTheVlansRequestsCount) {
    for (const std::optional<std::uint16_t> tag : {std::optional<std::uint16_t>{},
                                                   {std::uint16_t{0}},
                                                   {std::uint16_t{8}},
                                                   {std::uint16_t{4095}}}) {
        expect_unheard(tag);
    }
    expect_answered(vlan, vlan);
}

// The same for an address outside all VLANs; expect a priority tag to count as no tag.
TEST_F(RoceVlan, WithoutAVlanTagsDoNotCount) {
    move_to(0);
    renew();
    post_receive(0, 1000);
    expect_unheard(vlan);
    expect_answered(0, std::nullopt);
}

// The peer's address is known without a tag, but not in the VLAN; expect a request to resolve it in
// the VLAN.
TEST_F(RoceVlan, WhoIsKnownElsewhereIsNotKnownHere) {
    set_neighbour(vlan, std::nullopt);
    renew();
    qp_.post_send({});
    expect_silence();
    hca_->with_port("cable", [&](auto& port) {
        const auto unknown = port.take_unknown();
        ASSERT_EQ(unknown.size(), 1u);
        EXPECT_EQ(unknown[0].target, peer_gid_);
        EXPECT_EQ(unknown[0].vlan, vlan);
    });
    set_neighbour(vlan, peer_mac);
    EXPECT_EQ(reply().path.vlan, vlan);
}

// Another device has the peer's address in another VLAN; expect the peer's packets to be accepted.
// If the device has it in the same VLAN, expect them to be ignored as forged.
TEST_F(RoceVlan, AnAddressIsForgedInItsVlanOnly) {
    Guest neighbour{*hca_, "neighbour", peer_gid_, Guest::default_memory(), {}, "cable"};
    ASSERT_TRUE(neighbour.slice().set_gid(0, VRDMA_GID_ROCE_V2, peer_gid_, 8));
    expect_answered(vlan, vlan);
    ASSERT_TRUE(neighbour.slice().set_gid(0, VRDMA_GID_ROCE_V2, peer_gid_, vlan));
    renew();
    post_receive(0, 1000);
    expect_unheard(vlan);
}

// Receive a datagram, without the tag and with it, and answer; expect the second one's completion
// to name its VLAN, and the answer to carry its tag.
TEST_F(RoceVlan, DatagramsSayTheVlan) {
    GuestQp ud = guest_.create_qp(cq_, cq_, {.type = hca::QpType::ud});
    activate_ud(guest_, ud, qkey);
    const vrdma_sge to = mr_.sge(0, VRDMA_UD_GRH_SIZE + 10);
    ud.post_recv({&to, 1});
    wire::Headers headers;
    headers.opcode = VRDMA_ROCE_UD_SEND_ONLY;
    headers.target_qpn = ud.id().value;
    headers.qkey = qkey;
    headers.source_qpn = peer_qpn;
    deliver_with(std::nullopt, headers, Buffer::pattern(3, 10));
    expect_silence();
    EXPECT_FALSE(cq_.poll());
    deliver_with(vlan, headers, Buffer::pattern(4, 10));
    expect_silence();
    const auto completion = cq_.poll();
    ASSERT_TRUE(completion);
    EXPECT_EQ(completion->vlan, vlan);
    EXPECT_EQ(mr_.buffer.read(VRDMA_UD_GRH_SIZE, 10), Buffer::pattern(4, 10));

    ud.post_send({.flags = VRDMA_SQ_INLINE,
                  .inline_data = Buffer::pattern(5, 8),
                  .ah = guest_.create_ah(peer_gid_),
                  .dest_qpn = Qpn{peer_qpn},
                  .qkey = qkey});
    EXPECT_EQ(reply().path.vlan, vlan);
}

} // namespace
} // namespace vrdma::test
