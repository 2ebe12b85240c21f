// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// GIDs that move, are removed, and are claimed twice.
#include "mediator/hca/soft/tests/two_guests.h"

namespace vrdma::test {
namespace {

class RoutingTableTest : public ConnectedPair {
  protected:
    ibv_wc_status write() {
        a_qp_.post_send({.opcode = VRDMA_SQ_RDMA_WRITE});
        return wait(a_cq_).status;
    }
};

// Take the receiver's GID away, then the sender's; expect that nobody answers.
TEST_F(RoutingTableTest, WithoutGidNobodyAnswers) {
    EXPECT_EQ(write(), IBV_WC_SUCCESS);
    ASSERT_TRUE(b_.slice().set_gid(0, 0, {}, 0));
    EXPECT_EQ(write(), IBV_WC_RETRY_EXC_ERR);
    ASSERT_TRUE(b_.slice().set_gid(0, VRDMA_GID_ROCE_V2, b_.gid(), 0));
    ASSERT_TRUE(a_.slice().set_gid(0, 0, {}, 0));
    b_qp_.post_send({.opcode = VRDMA_SQ_RDMA_WRITE});
    EXPECT_EQ(wait(b_cq_).status, IBV_WC_RETRY_EXC_ERR);
}

// A third device claims the receiver's GID; expect traffic to go where it went before.
TEST_F(RoutingTableTest, NobodyTakesAnAddressAway) {
    Guest thief{*hca_, "thief", b_.gid()};
    EXPECT_EQ(write(), IBV_WC_SUCCESS);
}

// Put the devices in VLANs; expect that devices in different VLANs do not reach each other, and
// those in the same VLAN do.
TEST_F(RoutingTableTest, VlansAreApart) {
    const auto move = [](Guest& guest, std::uint16_t vlan) {
        ASSERT_TRUE(guest.slice().set_gid(0, VRDMA_GID_ROCE_V2, guest.gid(), vlan));
    };
    const auto write_by_others = [this] {
        GuestQp from = a_.create_qp(a_cq_, a_cq_);
        GuestQp to = b_.create_qp(b_cq_, b_cq_);
        connect_pair(from, to);
        from.post_send({.opcode = VRDMA_SQ_RDMA_WRITE});
        return wait(a_cq_).status;
    };
    EXPECT_EQ(write(), IBV_WC_SUCCESS);
    move(b_, 7);
    EXPECT_EQ(write(), IBV_WC_RETRY_EXC_ERR);
    move(a_, 8);
    EXPECT_EQ(write_by_others(), IBV_WC_RETRY_EXC_ERR);
    move(a_, 7);
    EXPECT_EQ(write_by_others(), IBV_WC_SUCCESS);
}

// Destroy the receiver's device and create another with its GID; expect no answer from the
// destroyed QP.
TEST_F(RoutingTableTest, DevicesComeAndGo) {
    auto guest = std::make_unique<Guest>(*hca_, "c", ipv4_gid(3));
    GuestCq cq = guest->create_cq();
    GuestQp to = guest->create_qp(cq, cq);
    GuestQp from = a_.create_qp(a_cq_, a_cq_);
    connect_both(a_, from, *guest, to);
    from.post_send({.opcode = VRDMA_SQ_RDMA_WRITE});
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
    guest.reset();
    from.post_send({.opcode = VRDMA_SQ_RDMA_WRITE});
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_RETRY_EXC_ERR);
    EXPECT_EQ(a_.slice().set_gid(4096, 0, ipv4_gid(9), 0).error(), std::errc::invalid_argument);
}

} // namespace
} // namespace vrdma::test
