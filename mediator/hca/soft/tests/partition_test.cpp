// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// P_Keys: only members of a common partition may communicate (IBA 10.9.3).
#include "mediator/hca/soft/tests/two_guests.h"
#include "mediator/hca/soft/transport/roce/tests/network_peer.h"

namespace vrdma::test {
namespace {

const PKeys own_pkeys{0xffff, 0x8001, 0x0001, 0x8002};

TEST(PKey, MembersOfOnePartitionTalkButTwoLimitedOnes) {
    EXPECT_TRUE(share_partition(0xffff, 0xffff));
    EXPECT_TRUE(share_partition(0xffff, 0x7fff));
    EXPECT_TRUE(share_partition(0x0001, 0x8001));
    EXPECT_FALSE(share_partition(0x7fff, 0x7fff));
    EXPECT_FALSE(share_partition(0x8001, 0x8002));
    EXPECT_FALSE(share_partition(0x8001, 0xffff));
    EXPECT_FALSE(share_partition(0x8000, 0x8000)) << "no partition has the number 0";
    EXPECT_FALSE(share_partition(0, 0));
}

vrdma_qp_attr init_with(std::uint16_t pkey_index) {
    vrdma_qp_attr attr = init_attr();
    attr.pkey_index = pkey_index;
    return attr;
}

class Partition : public TwoGuests {
  protected:
    static constexpr std::uint32_t qkey = 0x1234;

    Partition() : TwoGuests{{}, {}, {}, own_pkeys} {}

    static void connect_with(Guest& guest, const GuestQp& qp, std::uint16_t pkey_index,
                             const Guest& peer_guest, const GuestQp& peer) {
        ASSERT_TRUE(guest.slice().modify_qp(qp.id(), init_with(pkey_index)));
        ASSERT_TRUE(guest.slice().modify_qp(qp.id(), rtr_attr(peer_guest.gid(), peer.id())));
        ASSERT_TRUE(guest.slice().modify_qp(qp.id(), rts_attr()));
    }
    static void activate_with(Guest& guest, const GuestQp& qp, std::uint16_t pkey_index) {
        vrdma_qp_attr attr = init_with(pkey_index);
        attr.attr_mask |= IBV_QP_QKEY;
        attr.qkey = qkey;
        ASSERT_TRUE(guest.slice().modify_qp(qp.id(), attr));
        ASSERT_TRUE(guest.slice().modify_qp(qp.id(), state_attr(IBV_QPS_RTR)));
        ASSERT_TRUE(guest.slice().modify_qp(qp.id(), state_attr(IBV_QPS_RTS)));
    }
    std::uint64_t refused(const GuestQp& qp) {
        return b_.slice().qp_counters(qp.id())->value[VRDMA_COUNTER_BAD_PKEYS];
    }
    // Sends by a new connection. Expects the result that the P_Keys allow, or the status `without`
    // at the sender.
    void send_connected(hca::QpType type, std::uint16_t a_index, std::uint16_t b_index,
                        ibv_wc_status without) {
        GuestQp a_qp = a_.create_qp(a_cq_, a_cq_, {.type = type});
        GuestQp b_qp = b_.create_qp(b_cq_, b_cq_, {.type = type});
        connect_with(a_, a_qp, a_index, b_, b_qp);
        connect_with(b_, b_qp, b_index, a_, a_qp);
        const bool may = share_partition(own_pkeys[a_index], own_pkeys[b_index]);
        const vrdma_sge to = b_mr_.sge();
        b_qp.post_recv({&to, 1});
        a_qp.post_send(
            {.flags = VRDMA_SQ_SIGNALED | VRDMA_SQ_INLINE, .inline_data = Buffer::pattern(1, 8)});
        EXPECT_EQ(wait(a_cq_).status, may ? IBV_WC_SUCCESS : without) << a_index << b_index;
        expect_arrival(b_qp, may);
    }
    void expect_arrival(const GuestQp& b_qp, bool may) {
        if (may) {
            EXPECT_EQ(wait(b_cq_).status, IBV_WC_SUCCESS);
            EXPECT_EQ(refused(b_qp), 0u);
        } else {
            settle();
            EXPECT_FALSE(b_cq_.poll());
            EXPECT_GE(refused(b_qp), 1u);
        }
    }

    MemoryRegion b_mr_ = b_.register_mr(4096);
};

constexpr std::pair<std::uint16_t, std::uint16_t> members_tried[] = {{0, 0}, {1, 1}, {1, 2}, {2, 1},
                                                                     {2, 2}, {0, 1}, {1, 3}};

// Send by connections of each pair of P_Keys; expect no answer from another partition.
TEST_F(Partition, ReliableConnections) {
    for (const auto& [a, b] : members_tried) {
        send_connected(hca::QpType::rc, a, b, IBV_WC_RETRY_EXC_ERR);
    }
}

// The same on UC; expect messages of another partition to be dropped.
TEST_F(Partition, UnreliableConnections) {
    for (const auto& [a, b] : members_tried) {
        send_connected(hca::QpType::uc, a, b, IBV_WC_SUCCESS);
    }
}

TEST_F(Partition, Datagrams) {
    const AhId ah = a_.create_ah(b_.gid());
    for (const auto& [a, b] : members_tried) {
        GuestQp a_qp = a_.create_qp(a_cq_, a_cq_, {.type = hca::QpType::ud});
        GuestQp b_qp = b_.create_qp(b_cq_, b_cq_, {.type = hca::QpType::ud});
        activate_with(a_, a_qp, a);
        activate_with(b_, b_qp, b);
        const vrdma_sge to = b_mr_.sge();
        b_qp.post_recv({&to, 1});
        a_qp.post_send({.flags = VRDMA_SQ_SIGNALED | VRDMA_SQ_INLINE,
                        .inline_data = Buffer::pattern(1, 8),
                        .ah = ah,
                        .dest_qpn = b_qp.id(),
                        .qkey = qkey});
        EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
        expect_arrival(b_qp, share_partition(own_pkeys[a], own_pkeys[b]));
    }
}

// Restore a QP whose P_Key the table does not have; expect a refusal.
TEST_F(Partition, ARestoredQpHasOneOfTheTable) {
    const GuestQp qp = a_.create_qp(a_cq_, a_cq_, {});
    ASSERT_TRUE(a_.slice().modify_qp(qp.id(), init_with(3)));
    hca::QpState state = a_.slice().save_qp(qp.id());
    EXPECT_EQ(state.attr.pkey_index, 3);
    EXPECT_TRUE(a_.slice().restore_qp(qp.id(), state, {}));
    state.attr.pkey_index = 4;
    EXPECT_FALSE(a_.slice().restore_qp(qp.id(), state, {}));
}

// A guest that is a limited member of another partition. Its peer on the network is the test.
class RocePartition : public NetworkPeer {
  protected:
    RocePartition() {
        path_.target = member_.gid();
        EXPECT_TRUE(member_.slice().modify_qp(own_.id(), init_with(1)));
        vrdma_qp_attr attr = rtr_attr(peer_gid_, Qpn{peer_qpn});
        attr.path_mtu = IBV_MTU_256;
        attr.rq_psn = first_psn;
        EXPECT_TRUE(member_.slice().modify_qp(own_.id(), attr));
        attr = rts_attr();
        attr.timeout = 17;
        EXPECT_TRUE(member_.slice().modify_qp(own_.id(), attr));
    }

    wire::Headers send_with(std::uint16_t pkey) const {
        wire::Headers headers = asking(VRDMA_ROCE_SEND_ONLY, 0);
        headers.target_qpn = own_.id().value;
        headers.pkey = pkey;
        return headers;
    }

    Guest member_{*hca_,   "member", ipv4_gid(3), Guest::default_memory(), {},
                  "cable", {},       {},          {0xffff, 0x0001}};
    GuestCq own_cq_ = member_.create_cq();
    GuestQp own_ = member_.create_qp(own_cq_, own_cq_);
};

// Receive packets of other partitions and of a limited member; expect no answer. Then receive one
// of a full member; expect an answer with the guest's own P_Key.
TEST_F(RocePartition, ChecksWhatComes) {
    own_.post_recv({});
    for (const std::uint16_t pkey : {0xffff, 0x7fff, 0x0001, 0x8002, 0x0000, 0x8000}) {
        deliver(send_with(pkey));
    }
    settle();
    EXPECT_TRUE(sent().empty());
    EXPECT_EQ(member_.slice().qp_counters(own_.id())->value[VRDMA_COUNTER_BAD_PKEYS], 6u);
    deliver(send_with(0x8001));
    const Arrived answer = reply();
    EXPECT_EQ(answer.operation(), VRDMA_ROCE_ACKNOWLEDGE);
    EXPECT_EQ(answer.headers.pkey, 0x0001);
    EXPECT_TRUE(own_cq_.poll());
}

TEST_F(RocePartition, RequestsAndDatagramsHaveIt) {
    own_.post_send({.opcode = VRDMA_SQ_RDMA_WRITE});
    EXPECT_EQ(reply().headers.pkey, 0x0001);
    GuestQp ud = member_.create_qp(own_cq_, own_cq_, {.type = hca::QpType::ud});
    vrdma_qp_attr attr = init_with(1);
    attr.attr_mask |= IBV_QP_QKEY;
    ASSERT_TRUE(member_.slice().modify_qp(ud.id(), attr));
    ASSERT_TRUE(member_.slice().modify_qp(ud.id(), state_attr(IBV_QPS_RTR)));
    ASSERT_TRUE(member_.slice().modify_qp(ud.id(), state_attr(IBV_QPS_RTS)));
    ud.post_send({.flags = VRDMA_SQ_INLINE,
                  .inline_data = Buffer::pattern(5, 8),
                  .ah = member_.create_ah(peer_gid_),
                  .dest_qpn = Qpn{peer_qpn}});
    EXPECT_EQ(reply().headers.pkey, 0x0001);
}

} // namespace
} // namespace vrdma::test
