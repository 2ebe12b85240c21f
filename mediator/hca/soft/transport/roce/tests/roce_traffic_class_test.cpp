// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The traffic class and priority of a guest's packets. They depend on the class that the guest asks
// for and may use, and on the administrator's mapping.
#include "mediator/hca/soft/transport/roce/tests/network_peer.h"

namespace vrdma::test {
namespace {

constexpr std::uint8_t with_ecn(std::uint8_t dscp, std::uint8_t ecn) {
    return static_cast<std::uint8_t>(dscp << 2 | ecn);
}

class RoceTrafficClass : public NetworkPeer {
  protected:
    static constexpr std::uint8_t given = 26;
    static constexpr std::uint8_t another = 27;
    static constexpr std::uint32_t qkey = 0x1234;

    // The packet of a connected QP's write, and a datagram, of a guest that asks for that class.
    Arrived write(Guest& guest, std::uint8_t traffic_class, std::uint8_t level = 0) {
        GuestCq cq = guest.create_cq();
        GuestQp qp = guest.create_qp(cq, cq);
        move_to_init(guest, qp);
        vrdma_qp_attr attr = rtr_attr(peer_gid_, Qpn{peer_qpn});
        attr.path_mtu = IBV_MTU_256;
        attr.av.traffic_class = traffic_class;
        attr.av.sl = level;
        EXPECT_TRUE(guest.slice().modify_qp(qp.id(), attr));
        EXPECT_TRUE(guest.slice().modify_qp(qp.id(), rts_attr()));
        qp.post_send({.opcode = VRDMA_SQ_RDMA_WRITE});
        for (int i = 0; i < 1000; ++i) { // it may also be sent again
            hca_->poll();
            if (const auto packets = sent(); !packets.empty()) {
                EXPECT_TRUE(guest.slice().modify_qp(qp.id(), state_attr(IBV_QPS_ERR)));
                return packets.front();
            }
        }
        ADD_FAILURE() << "nothing was sent";
        return {};
    }
    Arrived datagram(Guest& guest, std::uint8_t traffic_class, std::uint8_t level = 0) {
        GuestCq cq = guest.create_cq();
        GuestQp qp = guest.create_qp(cq, cq, {.type = hca::QpType::ud});
        activate_ud(guest, qp, qkey);
        hca::AhSpec ah{.id = AhId{ah_++}, .pd = Guest::pd, .av = {}};
        std::ranges::copy(peer_gid_, std::begin(ah.av.dgid));
        ah.av.hop_limit = 64;
        ah.av.port_num = 1;
        ah.av.traffic_class = traffic_class;
        ah.av.sl = level;
        EXPECT_TRUE(guest.slice().create_ah(ah));
        qp.post_send({.flags = VRDMA_SQ_INLINE,
                      .inline_data = Buffer::pattern(5, 8),
                      .ah = ah.id,
                      .dest_qpn = Qpn{peer_qpn},
                      .qkey = qkey});
        return reply();
    }

    // Puts the guest into a VLAN. From then on, its packets have tags, which have a priority.
    void enter_vlan(Guest& guest) {
        hca_->with_port("cable",
                        [&](auto& port) { port.set_neighbour(peer_gid_, peer_mac, vlan); });
        ASSERT_TRUE(guest.slice().set_gid(0, VRDMA_GID_ROCE_V2, guest.gid(), vlan));
    }

    static constexpr std::uint16_t vlan = 7;
    static constexpr std::uint8_t level = 5;
    std::uint32_t ah_ = 0x7000;
    Guest favoured_{*hca_,
                    "favoured",
                    ipv4_gid(3),
                    Guest::default_memory(),
                    {},
                    "cable",
                    hca::TrafficClasses{}.set(given),
                    hca::ServiceLevels{}.set(level)};
};

// A guest without a granted class asks for one, with all values of ECN; expect packets in class 0.
// Those of connected QPs, which react to marks, must be ones that routers may mark.
TEST_F(RoceTrafficClass, WhatWasNotGivenIsNotUsed) {
    for (const std::uint8_t ecn : {0, 1, 2, 3}) {
        EXPECT_EQ(write(guest_, with_ecn(given, ecn)).path.traffic_class,
                  with_ecn(0, VRDMA_ECN_CAPABLE));
        EXPECT_EQ(datagram(guest_, with_ecn(given, ecn)).path.traffic_class, with_ecn(0, 0));
    }
}

// A guest asks for its granted class, and for another.
TEST_F(RoceTrafficClass, WhatWasGivenIsUsed) {
    for (const std::uint8_t ecn : {0, 1, 2, 3}) {
        EXPECT_EQ(write(favoured_, with_ecn(given, ecn)).path.traffic_class,
                  with_ecn(given, VRDMA_ECN_CAPABLE));
        EXPECT_EQ(datagram(favoured_, with_ecn(given, ecn)).path.traffic_class, with_ecn(given, 0));
    }
    EXPECT_EQ(write(favoured_, with_ecn(another, 0)).path.traffic_class,
              with_ecn(0, VRDMA_ECN_CAPABLE));
    EXPECT_EQ(datagram(favoured_, with_ecn(another, 0)).path.traffic_class, with_ecn(0, 0));
}

// The same with RoCE v1, which routers do not mark.
TEST_F(RoceTrafficClass, NobodyMarksVersion1) {
    ASSERT_TRUE(favoured_.slice().set_gid(0, VRDMA_GID_ROCE_V1, favoured_.gid(), 0));
    EXPECT_EQ(write(favoured_, with_ecn(given, 3)).path.traffic_class, with_ecn(given, 0));
}

// In a VLAN, expect the tag's priority to follow the class, whatever service level is asked for
// without a grant.
TEST_F(RoceTrafficClass, ThePriorityFollows) {
    for (Guest* const guest : {&guest_, &favoured_}) {
        enter_vlan(*guest);
        for (const std::uint8_t other : {0, 4, 8, 13, 15}) {
            const wire::Path path = write(*guest, with_ecn(given, 0), other).path;
            EXPECT_EQ(path.vlan, vlan);
            EXPECT_EQ(path.priority, guest == &favoured_ ? given >> 3 : 0);
        }
    }
    EXPECT_EQ(write(guest_, 0, level).path.priority, 0);
    EXPECT_EQ(datagram(guest_, 0, level).path.priority, 0);
}

// A guest asks for its granted service level; expect that level's priority, and an unchanged DSCP.
TEST_F(RoceTrafficClass, AServiceLevelIsAPriority) {
    enter_vlan(favoured_);
    for (const std::uint8_t dscp : {std::uint8_t{0}, given}) {
        for (const Arrived& packet : {write(favoured_, with_ecn(dscp, 0), level),
                                      datagram(favoured_, with_ecn(dscp, 0), level)}) {
            EXPECT_EQ(packet.path.priority, level);
            EXPECT_EQ(packet.path.traffic_class >> 2, dscp);
        }
    }
}

// The administrator maps classes and levels to other priorities; expect those.
TEST_F(RoceTrafficClass, TheAdministratorSaysWhichPriority) {
    enter_vlan(favoured_);
    wire::Priorities priorities;
    priorities.of_dscp[0] = 1;
    priorities.of_dscp[given] = 7;
    priorities.of_service_level[level] = 2;
    hca_->with_port("cable", [&](auto& port) { port.set_priorities(priorities); });
    EXPECT_EQ(write(favoured_, 0).path.priority, 1);
    EXPECT_EQ(write(favoured_, with_ecn(given, 0)).path.priority, 7);
    EXPECT_EQ(write(favoured_, with_ecn(given, 0), level).path.priority, 2);
    EXPECT_EQ(datagram(favoured_, 0).path.priority, 1);
    EXPECT_EQ(datagram(favoured_, with_ecn(given, 0)).path.priority, 7);
    EXPECT_EQ(datagram(favoured_, with_ecn(given, 0), level).path.priority, 2);
}

} // namespace
} // namespace vrdma::test
