// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/control/served_uplink.h"

#include <gtest/gtest.h>

#include "mediator/tests/guest/guest.h"
#include "mediator/wire/uplink/tests/network.h"
#include "mediator/wire/uplink/transport.h"

namespace vrdma::control {
namespace {

using wire::ip;
using wire::output_of;

// A device that is bound to the near end of a cable.
class ServedUplinkTest : public wire::TwoHosts {
  protected:
    ServedUplinkTest() : served{ServedUplink::open(with_vlan(8), *hca, loop).value()} {}

    static UplinkOptions with_vlan(unsigned vlan) {
        UplinkOptions uplink{"lan", "near"};
        uplink.vlans.set(vlan);
        return uplink;
    }
    static std::unique_ptr<hca::soft::SoftHca> make_hca() {
        hca::soft::Config config;
        config.threads = false;
        return hca::soft::SoftHca::create(config).value();
    }

    // Makes an interface with the near one's name, at the end of another cable.
    static void make_near_anew() {
        ip("link add near mtu 9000 type veth peer name another mtu 9000");
        ip("link set another up");
        ip("link set near up");
    }

    static std::size_t occurrences(const std::string& word, const std::string& text) {
        std::size_t count = 0;
        for (auto at = text.find(word); at != text.npos; at = text.find(word, at + 1)) {
            ++count;
        }
        return count;
    }

    // Handles events that are pending or come within 10 ms.
    void serve() {
        std::this_thread::sleep_for(std::chrono::milliseconds{10});
        const auto stop = loop.watch(wake.fd(), [&](std::uint32_t) { loop.stop(); });
        wake.signal();
        ASSERT_TRUE(loop.run());
    }
    // Waits, because the kernel reports a link's state with a delay.
    void await(bool up) {
        for (int i = 0; i < 1000 && guest.slice().port_up() != up; ++i) {
            serve();
        }
        EXPECT_EQ(guest.slice().port_up(), up);
    }

    EventLoop loop;
    EventFd wake = EventFd::create().value();
    std::unique_ptr<hca::soft::SoftHca> hca = make_hca();
    std::unique_ptr<ServedUplink> served;
    test::Guest guest{*hca, "guest", test::ipv4_gid(1), test::Guest::default_memory(), {}, "lan"};
};

TEST_F(ServedUplinkTest, HasTheInterfacesMac) {
    EXPECT_EQ(served->name(), "lan");
    EXPECT_EQ(served->mac(), (wire::Mac{2, 0, 0, 0, 0, 1}));
}

TEST_F(ServedUplinkTest, ThePortFollowsTheInterface) {
    await(true);
    for (const bool up : {false, true}) {
        ip(up ? "link set near up" : "link set near down");
        await(up);
    }
}

TEST_F(ServedUplinkTest, ThePortFollowsTheCarrier) {
    for (const bool up : {false, true}) {
        there.enter();
        ip(up ? "link set far up" : "link set far down");
        here.enter();
        await(up);
    }
}

TEST_F(ServedUplinkTest, ThePortsMtuIsTheInterfaces) {
    EXPECT_EQ(guest.slice().max_mtu(), IBV_MTU_4096);
    ip("link set near mtu 1500");
    for (int i = 0; i < 1000 && guest.slice().max_mtu() != IBV_MTU_1024; ++i) {
        serve();
    }
    EXPECT_EQ(guest.slice().max_mtu(), IBV_MTU_1024);
}

TEST_F(ServedUplinkTest, ThePortsSpeedIsTheInterfaces) {
    await(true);
    EXPECT_EQ(guest.slice().port_mbps(), 10'000u);
    ip("link set near down");
    await(false);
    // As before: without a link, no speed is reported.
    EXPECT_EQ(guest.slice().port_mbps(), 10'000u);
}

// The configuration says which VLANs are for guests.
TEST_F(ServedUplinkTest, OnlySomeVlansAreForGuests) {
    const auto error = [&](std::uint16_t vlan) {
        const auto set = guest.slice().set_gid(0, VRDMA_GID_ROCE_V2, guest.gid(), vlan);
        return set ? std::errc{} : set.error();
    };
    EXPECT_EQ(error(7), std::errc::permission_denied);
    EXPECT_EQ(error(8), std::errc{});
    EXPECT_EQ(error(4094), std::errc::permission_denied);
    EXPECT_EQ(error(0), std::errc{});
}

// Only a device that has the interface's MAC may have the host's addresses.
TEST_F(ServedUplinkTest, TheHostsAddressesAreItsOwn) {
    ip("address add 10.0.0.9/24 dev near");
    ip("address add fd00::9/64 dev near nodad");
    const hca::Gid ipv6{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9};
    for (const hca::Gid& gid : {test::ipv4_gid(9), ipv6}) {
        const hca::soft::GidKey key{gid, VRDMA_GID_ROCE_V2, 0};
        EXPECT_EQ(served->add(key, {2, 0, 0, 0, 0, 7}).error(), std::errc::address_in_use);
        EXPECT_TRUE(served->add(key, served->mac()));
        served->remove(key, served->mac());
    }
    EXPECT_TRUE(served->add({test::ipv4_gid(8), VRDMA_GID_ROCE_V2, 0}, {2, 0, 0, 0, 0, 7}));
}

// The host's tables do not describe a guest's VLAN. Expect the peer not to be found in them.
TEST_F(ServedUplinkTest, NobodyIsFoundInAGuestsVlan) {
    ip("neighbour add 10.0.0.2 lladdr 02:00:00:00:00:02 dev near");
    ip("route add 10.0.0.0/24 dev near");
    ASSERT_TRUE(guest.slice().set_gid(0, VRDMA_GID_ROCE_V2, guest.gid(), 8));
    test::GuestCq cq = guest.create_cq();
    test::GuestQp qp = guest.create_qp(cq, cq);
    test::connect(guest, qp, test::ipv4_gid(2), Qpn{1});
    qp.post_send({.opcode = VRDMA_SQ_RDMA_WRITE});
    for (int i = 0; i < 1000 && !cq.poll(); ++i) {
        hca->poll();
        serve();
    }
    EXPECT_EQ(test::state_of(guest, qp), IBV_QPS_ERR);
}

// The host resolves a network's broadcast address to a group's MAC. Expect no peer to be found
// there.
TEST_F(ServedUplinkTest, NobodyHasABroadcastAddress) {
    ip("address add 10.0.0.9/24 broadcast 10.0.0.255 dev near");
    test::GuestCq cq = guest.create_cq();
    test::GuestQp qp = guest.create_qp(cq, cq);
    test::connect(guest, qp, test::ipv4_gid(255), Qpn{1});
    qp.post_send({.opcode = VRDMA_SQ_RDMA_WRITE});
    for (int i = 0; i < 1000 && !cq.poll(); ++i) {
        hca->poll();
        serve();
    }
    EXPECT_EQ(test::state_of(guest, qp), IBV_QPS_ERR);
}

// A device looks for many addresses that nobody has. Expect the host's kernel to be asked for a few
// of them at a time. Meanwhile, another device sends to a peer whose MAC is not known yet. Expect
// its packets to leave.
TEST_F(ServedUplinkTest, WhoLooksForManyKeepsNobodyWaiting) {
    ip("address add 10.0.0.9/16 dev near");
    there.enter();
    ip("address add 10.0.0.2/16 dev far");
    const auto far = wire::open_uplink("far", wire::Transport::af_packet, nullptr).value();
    here.enter();
    test::Guest seeker{*hca, "seeker", test::ipv4_gid(3), test::Guest::default_memory(), {}, "lan"};
    test::GuestCq seekers_cq = seeker.create_cq(512);
    std::vector<test::GuestQp> qps;
    for (unsigned n = 0; n < 250; ++n) {
        hca::Gid nobody = test::ipv4_gid(static_cast<std::uint8_t>(n + 1));
        nobody[14] = 7;
        qps.push_back(seeker.create_qp(seekers_cq, seekers_cq));
        test::connect(seeker, qps.back(), nobody, Qpn{1});
        qps.back().post_send({.opcode = VRDMA_SQ_RDMA_WRITE});
    }
    test::GuestCq cq = guest.create_cq();
    test::GuestQp qp = guest.create_qp(cq, cq);
    test::connect(guest, qp, test::ipv4_gid(2), Qpn{1});
    std::size_t asked = 0;
    for (int i = 0; i < 1000 && (i < 30 || far->receive().empty()); ++i) {
        hca->poll();
        serve();
        if (i == 10) {
            qp.post_send({.opcode = VRDMA_SQ_RDMA_WRITE});
        }
        asked = std::max(asked, occurrences("INCOMPLETE", output_of("ip neighbour show dev near")));
    }
    EXPECT_FALSE(far->receive().empty());
    EXPECT_GE(asked, 10u);
    EXPECT_LE(asked, 40u);
}

// Delete the interface, and make another one with its name at another cable. Expect the port to go
// down and up, and a QP's packets to leave by the new interface.
TEST_F(ServedUplinkTest, TakesAnInterfaceThatIsMadeAnew) {
    ip("link del near");
    await(false);
    make_near_anew();
    await(true);
    const auto other = wire::open_uplink("another", wire::Transport::af_packet, nullptr).value();
    ip("route add 10.0.0.0/24 dev near");
    ip("neighbour add 10.0.0.2 lladdr 02:00:00:00:00:02 dev near");
    test::GuestCq cq = guest.create_cq();
    test::GuestQp qp = guest.create_qp(cq, cq);
    test::connect(guest, qp, test::ipv4_gid(2), Qpn{1});
    qp.post_send({.opcode = VRDMA_SQ_RDMA_WRITE});
    for (int i = 0; i < 1000 && other->receive().empty(); ++i) {
        hca->poll();
        serve();
    }
    EXPECT_FALSE(other->receive().empty());
}

// Attach a QP to a group. Expect the interface to accept frames to the group's MAC for as long as
// the QP is attached, and also an interface that is made anew meanwhile.
TEST_F(ServedUplinkTest, TheInterfaceTakesGroupsFrames) {
    const auto taken = [] {
        return wire::output_of("ip maddr show dev near").find("33:33:00:00:47:11") !=
               std::string::npos;
    };
    const hca::Gid group{0xff, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x47, 0x11};
    test::GuestCq cq = guest.create_cq();
    test::GuestQp qp = guest.create_qp(cq, cq, {.type = hca::QpType::ud});
    EXPECT_FALSE(taken());
    ASSERT_TRUE(guest.slice().attach_multicast(qp.id(), group));
    EXPECT_TRUE(taken());
    ip("link del near");
    await(false);
    make_near_anew();
    await(true);
    EXPECT_TRUE(taken());
    guest.slice().detach_multicast(qp.id(), group);
    EXPECT_FALSE(taken());
}

// End an uplink that no slice has, and serve its interface again; expect a guest to use it then,
// and the other uplink to be served all the time.
TEST_F(ServedUplinkTest, EndsAndBeginsAgain) {
    ip("link add second mtu 9000 type veth peer name another mtu 9000");
    ip("link set another up");
    ip("link set second up");
    {
        const auto ends = ServedUplink::open({"wan", "second"}, *hca, loop).value();
        hca->poll();
        ends->end();
    }
    hca->poll();
    serve();
    const auto again = ServedUplink::open({"wan", "second"}, *hca, loop);
    ASSERT_TRUE(again) << again.error();
    test::Guest other{*hca, "other", test::ipv4_gid(2), test::Guest::default_memory(), {}, "wan"};
    for (int i = 0; i < 1000 && !other.slice().port_up(); ++i) {
        serve();
    }
    EXPECT_TRUE(other.slice().port_up());
    await(true);
}

// The new interface cannot be an uplink. Expect the port to stay down until one comes that can.
TEST_F(ServedUplinkTest, WaitsForAnInterfaceOfItsKind) {
    ip("link del near");
    await(false);
    ip("tuntap add near mode tun"); // no Ethernet
    ip("link set near up");
    serve();
    EXPECT_FALSE(guest.slice().port_up());
    ip("link del near");
    make_near_anew();
    await(true);
}

} // namespace
} // namespace vrdma::control
