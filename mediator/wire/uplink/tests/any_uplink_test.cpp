// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Tests that apply to packet sockets and AF_XDP alike.
#include <gtest/gtest.h>

#include <array>

#include "device_end.h"
#include "exchange.h"
#include "network.h"

namespace vrdma::wire {
namespace {

enum class Kind : std::uint8_t { packet, native, generic };

std::unique_ptr<Uplink> open_kind(Kind kind, const std::string& interface,
                                  const Steering& steering) {
    if (kind == Kind::packet) {
        return PacketUplink::create(interface).value();
    }
    const auto mode = kind == Kind::native ? XdpUplink::Mode::native : XdpUplink::Mode::generic;
    return open_xdp(interface, mode, steering);
}

const char* name_of(Kind kind) {
    constexpr std::array names{"packet", "native", "generic"};
    return names.at(static_cast<std::size_t>(kind));
}

class AnyUplinkTest : public TwoHosts, public testing::WithParamInterface<Kind> {
  protected:
    AnyUplinkTest() {
        ip("link set near mtu 3500");
        there.enter();
        ip("link set far mtu 3500");
        far_steering = steer_to_device("far");
        far = open_kind(GetParam(), "far", *far_steering);
        here.enter();
        near_steering = steer_to_device("near");
        near = open_kind(GetParam(), "near", *near_steering);
    }

    std::unique_ptr<Steering> near_steering;
    std::unique_ptr<Steering> far_steering;
    std::unique_ptr<Uplink> near;
    std::unique_ptr<Uplink> far;
};

INSTANTIATE_TEST_SUITE_P(Kinds, AnyUplinkTest,
                         testing::Values(Kind::packet, Kind::native, Kind::generic),
                         [](const auto& kind) { return name_of(kind.param); });

TEST_P(AnyUplinkTest, AFrameGoesOutAndComesIn) {
    EXPECT_FALSE(readable(*far));
    EXPECT_TRUE(far->receive().empty());
    const Frame frame = ipv4({.fill = 7});
    send(*near, frame);
    EXPECT_EQ(receive(*far), frame);
    EXPECT_FALSE(readable(*far));
    EXPECT_TRUE(far->receive().empty());
    EXPECT_FALSE(readable(*near)) << "a sender does not receive its own frames";
}

TEST_P(AnyUplinkTest, NothingLeavesBeforeFlush) {
    commit(*near, ipv4({}));
    EXPECT_FALSE(readable(*far, 20));
    near->flush();
    EXPECT_TRUE(readable(*far, 2000));
}

TEST_P(AnyUplinkTest, WhatIsNotCommittedIsGivenAgain) {
    const auto room = near->prepare({}, 0);
    EXPECT_EQ(near->prepare({}, 0).data(), room.data());
    near->flush();
    EXPECT_FALSE(readable(*far, 20));
}

TEST_P(AnyUplinkTest, AFrameIsThereUntilItIsReleased) {
    send(*near, tagged(ipv4({.fill = 1}), device_vlan));
    send(*near, ipv4({.fill = 2}));
    ASSERT_TRUE(readable(*far, 2000));
    const auto first = far->receive();
    const auto again = far->receive();
    EXPECT_EQ(again.data(), first.data());
    EXPECT_EQ(Frame(again.begin(), again.end()), tagged(ipv4({.fill = 1}), device_vlan));
    far->release();
    EXPECT_EQ(receive(*far), ipv4({.fill = 2}));
}

// Put more frames in one flush than a batch holds: prepare() makes room by itself.
TEST_P(AnyUplinkTest, FramesStayInOrder) {
    constexpr int count = 300;
    for (int i = 0; i < count; ++i) {
        commit(*near, ipv4({.payload = 100 + static_cast<std::size_t>(i), .fill = i & 0xff}));
    }
    near->flush();
    for (int i = 0; i < count; ++i) {
        ASSERT_EQ(receive(*far),
                  ipv4({.payload = 100 + static_cast<std::size_t>(i), .fill = i & 0xff}));
    }
}

TEST_P(AnyUplinkTest, OnlyRoceComesIn) {
    Frame arp = ethernet(ETH_P_ARP);
    arp.resize(60);
    for (const Frame& frame :
         {arp, ipv4({.port = 53}), ipv4({.protocol = IPPROTO_TCP}), ipv6(IPPROTO_UDP, 4790),
          ipv6(IPPROTO_TCP, 4791), Frame(ethernet(ETH_P_IP)), tagged(ipv4({.port = 53}), 5)}) {
        send_raw("near", frame);
    }
    for (const Frame& frame : {ipv4({}), ipv4({.options = 8}), ipv6(IPPROTO_UDP, 4791), roce_v1(),
                               tagged(roce_v1(), 0x6005)}) {
        send_raw("near", frame);
        EXPECT_EQ(receive(*far), frame);
    }
}

TEST_P(AnyUplinkTest, ATagStaysWithItsFrame) {
    const Frame frame = tagged(ipv4({.fill = 3}), 0xa123);
    send(*near, frame);
    EXPECT_EQ(receive(*far), frame);
}

} // namespace
} // namespace vrdma::wire
