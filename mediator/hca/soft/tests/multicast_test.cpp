// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Multicast: which members get the datagrams of a group.
#include "mediator/hca/soft/tests/two_guests.h"

namespace vrdma::test {
namespace {

constexpr hca::Gid group{0xff, 0x0e, 1};
constexpr hca::Gid other_group{0xff, 0x0e, 2};
constexpr hca::Gid ipv4_group{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 224, 0, 1, 2};
constexpr std::uint32_t group_qkey = 7;
constexpr std::uint32_t size = 16;

// A poller's turn is one piece, so a test can act between two.
hca::soft::Config short_turns() {
    hca::soft::Config config;
    config.turn_wqes = 1;
    return config;
}

class Multicast : public TwoGuests {
  protected:
    Multicast() : TwoGuests{short_turns()} {}

    struct Member {
        Member(Guest& guest, std::uint32_t key = group_qkey, bool blocks_own = false)
            : send_cq{guest.create_cq()},
              cq{guest.create_cq()},
              qp{guest.create_qp(send_cq, cq,
                                 {.type = hca::QpType::ud, .blocks_own_multicast = blocks_own})},
              mr{guest.register_mr(4096)} {
            activate_ud(guest, qp, key);
        }

        void post() { qp.post_recv(std::array{mr.sge(0, VRDMA_UD_GRH_SIZE + size)}); }

        GuestCq send_cq;
        GuestCq cq; // of receives
        GuestQp qp;
        MemoryRegion mr;
    };

    void attach(Guest& guest, Member& member, const hca::Gid& gid = group) {
        ASSERT_TRUE(guest.slice().attach_multicast(member.qp.id(), gid));
    }

    void post(const hca::Gid& gid, Qpn to = Qpn{VRDMA_MULTICAST_QPN}) {
        sender_.qp.post_send({.flags = VRDMA_SQ_SIGNALED | VRDMA_SQ_INLINE,
                              .inline_data = Buffer::pattern(3, size),
                              .ah = a_.create_ah(gid),
                              .dest_qpn = to,
                              .qkey = group_qkey});
    }

    void send(const hca::Gid& gid, Qpn to = Qpn{VRDMA_MULTICAST_QPN}) {
        post(gid, to);
        EXPECT_EQ(wait(sender_.send_cq).status, IBV_WC_SUCCESS);
        settle();
    }

    // Expects exactly one complete copy.
    void expect_copy(Member& member) {
        const auto received = member.cq.poll();
        ASSERT_TRUE(received);
        EXPECT_EQ(received->status, IBV_WC_SUCCESS);
        EXPECT_TRUE(received->with_grh);
        EXPECT_EQ(received->byte_len, VRDMA_UD_GRH_SIZE + size);
        EXPECT_EQ(received->src_qpn, sender_.qp.id().value);
        EXPECT_EQ(received->qpn, member.qp.id().value);
        EXPECT_EQ(member.mr.buffer.read(VRDMA_UD_GRH_SIZE, size), Buffer::pattern(3, size));
        EXPECT_FALSE(member.cq.poll());
    }

    Member sender_{a_};
    Member here_{a_};
    Member there_{b_};
    Member also_there_{b_};
};

// Attach QPs of both guests, the sender among them; expect one copy for each, with a header that
// names the group.
TEST_F(Multicast, EveryMemberGetsOneCopy) {
    for (Member* member : {&sender_, &here_}) {
        attach(a_, *member);
        member->post();
        member->post();
    }
    for (Member* member : {&there_, &also_there_}) {
        attach(b_, *member);
        member->post();
        member->post();
    }
    send(group);
    for (Member* member : {&sender_, &here_, &there_, &also_there_}) {
        expect_copy(*member);
        std::array<std::byte, 16> destination{};
        const auto header = member->mr.buffer.read(24, destination.size());
        EXPECT_EQ(header, std::vector<std::byte>(
                              reinterpret_cast<const std::byte*>(group.data()),
                              reinterpret_cast<const std::byte*>(group.data()) + group.size()));
    }
}

// Attach QPs that block their own datagrams, the sender among them; expect all but the sender to
// get a copy, also after the device has migrated.
TEST_F(Multicast, OneGetsNothingOfItsOwn) {
    sender_ = Member{a_, group_qkey, true};
    Member other{a_, group_qkey, true};
    for (Member* member : {&sender_, &other}) {
        attach(a_, *member, ipv4_group);
        member->post();
        member->post();
    }
    attach(b_, there_, ipv4_group);
    there_.post();
    there_.post();
    for (const bool moved : {false, true}) {
        if (moved) {
            a_.migrate(host_of(a_));
            attach(a_, sender_, ipv4_group);
            attach(a_, other, ipv4_group);
        }
        send(ipv4_group);
        expect_copy(other);
        expect_copy(there_);
        EXPECT_FALSE(sender_.cq.poll());
    }
}

// Send from a VLAN with only one of two guests in it; expect only that guest to get a copy.
TEST_F(Multicast, StaysInItsVlan) {
    ASSERT_TRUE(a_.slice().set_gid(0, VRDMA_GID_ROCE_V2, a_.gid(), 7));
    attach(a_, here_);
    attach(b_, there_);
    here_.post();
    there_.post();
    send(group);
    EXPECT_FALSE(there_.cq.poll());
    expect_copy(here_);
}

// Groups of IPv4 are IPv4-mapped addresses.
TEST_F(Multicast, Ipv4Groups) {
    attach(b_, there_, ipv4_group);
    there_.post();
    send(ipv4_group);
    expect_copy(there_);
}

// Send to a group without members, to another group, and to a member's group by the member's own
// QPN; expect the sends to succeed and nobody to get a copy.
TEST_F(Multicast, NobodyElseGetsIt) {
    attach(b_, there_, other_group);
    there_.post();
    here_.post();
    send(group);
    send(other_group, there_.qp.id());
    EXPECT_FALSE(there_.cq.poll());
    EXPECT_FALSE(here_.cq.poll());
}

// A member has no WQE, another Q_Key, or a WQE that is too short; expect it to miss the datagram,
// and the other members to get it.
TEST_F(Multicast, AMemberThatCannotTakeItIsLeftOut) {
    Member other_key{b_, group_qkey + 1};
    for (Member* member : {&there_, &also_there_, &other_key}) {
        attach(b_, *member);
    }
    attach(a_, here_);
    other_key.post();
    also_there_.qp.post_recv(std::array{also_there_.mr.sge(0, size)});
    here_.post();
    send(group);
    expect_copy(here_);
    for (Member* member : {&there_, &also_there_, &other_key}) {
        EXPECT_FALSE(member->cq.poll());
    }
}

// Detach one of two members, then the other; expect no copies for a detached member.
TEST_F(Multicast, DetachedQpsGetNothing) {
    attach(b_, there_);
    attach(b_, also_there_);
    there_.post();
    also_there_.post();
    b_.slice().detach_multicast(there_.qp.id(), group);
    send(group);
    expect_copy(also_there_);
    also_there_.post();
    b_.slice().detach_multicast(also_there_.qp.id(), group);
    send(group);
    EXPECT_FALSE(there_.cq.poll());
    EXPECT_FALSE(also_there_.cq.poll());
}

// Send many datagrams to members on both pollers; expect all of them in order.
TEST_F(Multicast, KeepsItsOrder) {
    attach(a_, here_);
    attach(b_, there_);
    const AhId ah = a_.create_ah(group);
    for (std::uint32_t i = 0; i < 100; ++i) {
        here_.post();
        there_.post();
        sender_.qp.post_send({.opcode = VRDMA_SQ_SEND_WITH_IMM,
                              .flags = VRDMA_SQ_SIGNALED | VRDMA_SQ_INLINE,
                              .imm = i,
                              .inline_data = Buffer::pattern(3, size),
                              .ah = ah,
                              .dest_qpn = Qpn{VRDMA_MULTICAST_QPN},
                              .qkey = group_qkey});
        EXPECT_EQ(wait(here_.cq).imm, i);
        EXPECT_EQ(wait(there_.cq).imm, i);
        EXPECT_EQ(wait(sender_.send_cq).status, IBV_WC_SUCCESS);
    }
}

// Detach a guest that has got its copy before others; expect the others to get theirs.
TEST_F(Multicast, WhoLeavesUnderWayCostsNobodyACopy) {
    Guest c{*hca_, "c", ipv4_gid(3)};
    Member leaves{c};
    attach(c, leaves);
    attach(a_, here_);
    attach(b_, there_);
    for (Member* member : {&leaves, &here_, &there_}) {
        member->post();
    }
    post(group);
    EXPECT_EQ(wait(leaves.cq).status, IBV_WC_SUCCESS);
    EXPECT_FALSE(there_.cq.poll());
    c.slice().detach_multicast(leaves.qp.id(), group);
    EXPECT_EQ(wait(sender_.send_cq).status, IBV_WC_SUCCESS);
    expect_copy(here_);
    expect_copy(there_);
}

// Destroy a guest with attached members; expect later datagrams not to be sent to them.
TEST_F(Multicast, EndsWithItsGuest) {
    {
        Guest c{*hca_, "c", ipv4_gid(3)};
        Member member{c};
        attach(c, member);
        member.post();
        send(group);
        expect_copy(member);
    }
    attach(b_, there_);
    there_.post();
    send(group);
    expect_copy(there_);
}

} // namespace
} // namespace vrdma::test
