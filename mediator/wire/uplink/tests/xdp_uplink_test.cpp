// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <vector>

#include "device_end.h"
#include "exchange.h"
#include "network.h"

namespace vrdma::wire {
namespace {

using testing::HasSubstr;
using testing::Not;
using Mode = XdpUplink::Mode;

std::string shown(const std::string& interface) {
    return output_of("ip -details link show dev " + interface);
}

// Returns the reason of a refusal; empty if there is none.
std::string refusal(const std::string& interface, Mode mode, const Steering& steering) {
    const auto uplink = XdpUplink::create(interface, mode, steering);
    return uplink ? "" : uplink.error();
}

// Frames come in by the far host's interface. The test begins in the near one.
class XdpUplinkTest : public TwoHosts, public testing::WithParamInterface<Mode> {
  protected:
    XdpUplinkTest() {
        ip("link set near mtu 3500");
        there.enter();
        ip("link set far mtu 3500");
        steering = steer_to_device("far");
        far = open_xdp("far", GetParam(), *steering);
        stack = PacketUplink::create("far").value();
        here.enter();
    }

    void expect_passed(const Frame& frame) const {
        send_raw("near", frame);
        EXPECT_EQ(receive(*stack), frame);
        EXPECT_EQ(receive(*far), frame) << "as by a packet socket";
    }
    void expect_taken(const Frame& frame) const {
        send_raw("near", frame);
        EXPECT_EQ(receive(*far), frame);
        EXPECT_TRUE(stack->receive().empty());
    }

    std::unique_ptr<Steering> steering;
    std::unique_ptr<XdpUplink> far;
    std::unique_ptr<PacketUplink> stack; // receives what the host gets
};

INSTANTIATE_TEST_SUITE_P(Modes, XdpUplinkTest, testing::Values(Mode::native, Mode::generic),
                         [](const auto& mode) { return XdpUplink::name_of(mode.param); });

// Each frame differs from a device's in one thing.
TEST_P(XdpUplinkTest, OthersTrafficPasses) {
    for (const Frame& frame : {ipv4({.last_byte_of_target = 3}), ipv4({.options = 8}, 3),
                               tagged(ipv4({.last_byte_of_target = 3}), device_vlan),
                               tagged(ipv4({}), device_vlan + 1), tagged(roce_v1(), 7)}) {
        expect_passed(frame);
    }
    steering->remove({ipv6_gid, device_mac});
    expect_passed(ipv6(IPPROTO_UDP, 4791));
    ASSERT_TRUE(steering->add({ipv6_gid, device_mac, Encapsulation::roce_v1}));
    expect_passed(ipv6(IPPROTO_UDP, 4791));
}

// Others on the host may be in the group, too.
TEST_P(XdpUplinkTest, GroupsAreOfAll) {
    Frame frame = ipv4({});
    constexpr std::array<std::uint8_t, 6> mac{1, 0, 0x5e, 0, 0, 1};
    constexpr std::array<std::uint8_t, 4> address{239, 0, 0, 1};
    std::memcpy(frame.data(), mac.data(), mac.size());
    std::memcpy(&frame[ETH_HLEN + 16], address.data(), address.size());
    expect_passed(frame);
}

TEST_P(XdpUplinkTest, PacketsToADeviceStop) {
    for (const Frame& frame :
         {ipv4({}), ipv4({.options = 40}), ipv6(IPPROTO_UDP, 4791), roce_v1(), tagged(roce_v1(), 0),
          tagged(ipv4({}), device_vlan), tagged(ipv4({}), 3 << 13 | device_vlan)}) {
        expect_taken(frame);
    }
}

TEST_P(XdpUplinkTest, AddressesComeAndGo) {
    steering->remove({ipv4_gid(2), device_mac});
    expect_passed(ipv4({}));
    ASSERT_TRUE(steering->add({ipv4_gid(2), device_mac}));
    expect_taken(ipv4({}));
}

UniqueFd udp_socket(const sockaddr_in& own) {
    UniqueFd socket{::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
    EXPECT_EQ(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&own), sizeof(own)), 0);
    return socket;
}

// The host talks to others by the same interface, and by the same address.
TEST_P(XdpUplinkTest, TheHostHasItsNetwork) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(5000);
    there.enter();
    ip("addr add 10.0.0.2/24 dev far");
    const UniqueFd reader = udp_socket(address);
    here.enter();
    ip("addr add 10.0.0.1/24 dev near");
    const UniqueFd sender = udp_socket(address);
    address.sin_addr.s_addr = htonl(0x0a000002);
    const Frame sent(3000, std::byte{7});
    ASSERT_EQ(::sendto(sender.get(), sent.data(), sent.size(), 0,
                       reinterpret_cast<const sockaddr*>(&address), sizeof(address)),
              3000);
    ASSERT_TRUE(readable(reader.get(), 10000));
    Frame read(sent.size());
    ASSERT_EQ(::recv(reader.get(), read.data(), read.size(), 0), 3000);
    EXPECT_EQ(read, sent);
}

// Frames that are cut off anywhere, and frames with headers that are longer than the frame. The
// host gets them, or the parser does. Both must survive.
TEST_P(XdpUplinkTest, HostileFrames) {
    int sent = 0;
    for (const Frame& whole : {ipv4({.payload = 0}), ipv6(IPPROTO_UDP, 4791, 0), roce_v1(),
                               tagged(ipv4({.payload = 0}), 5)}) {
        for (std::size_t size = ETH_HLEN; size < whole.size(); size += 3, ++sent) {
            send_raw("near",
                     Frame(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)));
        }
    }
    for (const int length : {0, 4, 15}) {
        Frame frame = ipv4({.payload = 0});
        frame[ETH_HLEN] = static_cast<std::byte>(0x40 | length);
        send_raw("near", frame);
        ++sent;
    }
    send_raw("near", ipv4({.fill = 1}));
    int received = 0;
    while (receive(*far) != ipv4({.fill = 1})) {
        ASSERT_LT(received++, sent);
    }
}

TEST_P(XdpUplinkTest, AFullRingLosesTheNewestFrames) {
    constexpr std::size_t sent = XskQueue::receive_frames + 100;
    std::vector<Frame> frames;
    frames.reserve(sent);
    for (std::size_t i = 0; i < sent; ++i) {
        frames.push_back(ipv4({.payload = 100 + i}));
    }
    send_raw("near", frames);
    for (std::size_t i = 0; i < XskQueue::receive_frames; ++i) {
        ASSERT_EQ(receive(*far).size(), ipv4({.payload = 100 + i}).size());
    }
    EXPECT_FALSE(readable(*far));
    EXPECT_EQ(far->losses().overrun, sent - XskQueue::receive_frames);
    for (int i = 0; i < 3; ++i) {
        expect_taken(ipv4({.fill = i}));
    }
}

// Send more frames than can be under way.
TEST_P(XdpUplinkTest, SendingGoesOn) {
    there.enter();
    for (std::uint32_t i = 0; i < 4 * XskQueue::send_frames; ++i) {
        while (far->prepare({}, 0).empty()) {
            far->flush();
        }
        commit(*far, ipv4({}));
    }
    far->flush();
    EXPECT_EQ(far->losses().refused, 0);
}

TEST_P(XdpUplinkTest, TheLargestFrameIsTheMtus) {
    there.enter();
    EXPECT_EQ(far->frame_size(), 3518);
    ip("link set far mtu 1280");
    EXPECT_EQ(far->frame_size(), 1298);
}

TEST_P(XdpUplinkTest, AnInterfaceThatIsDownLosesFramesAndComesBack) {
    there.enter();
    ip("link set far down");
    ASSERT_TRUE(readable(*far)) << "its thread is woken";
    EXPECT_TRUE(far->receive().empty());
    far->woken();
    EXPECT_FALSE(readable(*far)) << "but once";
    for (int i = 0; i < 2000; ++i) {
        send(*far, ipv4({}));
    }
    EXPECT_GE(far->losses().refused, 1900);
    ip("link set far up");
    wait_until_up("far");
    here.enter();
    wait_until_up("near");
    const auto near = PacketUplink::create("near").value();
    there.enter();
    send(*far, ipv4({.fill = 5}));
    Frame last;
    for (int i = 0; i < 100 && last != ipv4({.fill = 5}); ++i) {
        last = receive(*near); // frames that were under way when it went down come first
    }
    EXPECT_EQ(last, ipv4({.fill = 5}));
    here.enter();
    expect_taken(ipv4({.fill = 6}));
}

TEST_P(XdpUplinkTest, WithoutACarrierFramesAreLost) {
    ip("link set near down");
    there.enter();
    for (int i = 0; i < 2000; ++i) {
        send(*far, ipv4({}));
    }
    EXPECT_GE(far->losses().refused, 1900);
}

TEST_P(XdpUplinkTest, AnInterfaceThatIsGoneLosesFrames) {
    there.enter();
    ip("link del far");
    ASSERT_TRUE(readable(*far, 2000));
    far->woken();
    EXPECT_FALSE(readable(*far));
    for (int i = 0; i < 2000; ++i) {
        ASSERT_FALSE(far->prepare({}, 0).empty());
        send(*far, ipv4({}));
    }
    EXPECT_GE(far->losses().refused, 1900);
    EXPECT_TRUE(far->receive().empty());
}

TEST_P(XdpUplinkTest, NothingIsLeft) {
    there.enter();
    EXPECT_THAT(shown("far"), HasSubstr("xdp"));
    far.reset();
    EXPECT_THAT(shown("far"), Not(HasSubstr("xdp")));
}

TEST_P(XdpUplinkTest, AnInterfaceHasOne) {
    there.enter();
    for (const Mode mode : {Mode::native, Mode::generic}) {
        EXPECT_THAT(refusal("far", mode, *steering), HasSubstr("busy"));
    }
}

class XdpProbeTest : public TwoHosts {
  protected:
    XdpProbeTest() { ip("link set near mtu 1500"); }

    // Makes a cable from `source` to `many`.
    static void lay_cable_of_four_queues() {
        ip("link add many numrxqueues 4 numtxqueues 4 address 02:00:00:00:00:02 type veth"
           " peer name source numrxqueues 4 numtxqueues 4");
    }
    static void bring_it_up() {
        for (const char* interface : {"many", "source"}) {
            set_up(interface);
        }
        wait_until_up("many");
    }
};

TEST_F(XdpProbeTest, AVirtualCableHasNoZeroCopy) {
    const auto steering = Steering::create("near").value();
    EXPECT_THAT(refusal("near", Mode::zero_copy, *steering), HasSubstr("not supported"));
    EXPECT_THAT(shown("near"), Not(HasSubstr("xdp")));
}

TEST_F(XdpProbeTest, AFrameHasToFit) {
    const auto steering = Steering::create("near").value();
    ip("link set near mtu 3823");
    for (const Mode mode : {Mode::native, Mode::generic}) {
        EXPECT_THAT(refusal("near", mode, *steering), HasSubstr("MTU of 3823"));
    }
    ip("link set near mtu 3822");
    const auto uplink = open_xdp("near", Mode::generic, *steering);
    EXPECT_EQ(uplink->frame_size(), XskQueue::max_received);
    ip("link set near mtu 9000");
    EXPECT_EQ(uplink->frame_size(), XskQueue::max_received);
}

TEST_F(XdpProbeTest, AFrameThatDoesNotFitIsLost) {
    there.enter();
    ip("link set far mtu 1500");
    const auto steering = steer_to_device("far");
    const auto far = open_xdp("far", Mode::generic, *steering);
    ip("link set far mtu 9000");
    here.enter();
    ip("link set near mtu 9000");
    send_raw("near", ipv4({.payload = 4000}));
    send_raw("near", ipv4({.fill = 4}));
    EXPECT_EQ(receive(*far), ipv4({.fill = 4}));
    EXPECT_EQ(far->losses().overrun, 1);
}

TEST_F(XdpProbeTest, WhatIsNotThereIsNotOpened) {
    const auto steering = Steering::create("near").value();
    EXPECT_THAT(refusal("none", Mode::generic, *steering), HasSubstr("No such device"));
    EXPECT_THAT(refusal("lo", Mode::generic, *steering), HasSubstr("not supported"));
}

// The frames come by any of an interface's queues.
void send_and_receive_by_many_ports(Uplink& uplink) {
    constexpr int count = 64;
    for (int i = 0; i < count; ++i) {
        Frame frame = ipv4({});
        frame[ETH_HLEN + 20] = static_cast<std::byte>(i); // of the source port
        send_raw("source", frame);
    }
    for (int i = 0; i < count; ++i) {
        ASSERT_FALSE(receive(uplink).empty());
    }
    EXPECT_FALSE(readable(uplink));
}

TEST_F(XdpProbeTest, EveryQueueIsCovered) {
    lay_cable_of_four_queues();
    bring_it_up();
    const auto steering = steer_to_device("many");
    const auto uplink = open_xdp("many", Mode::native, *steering);
    ASSERT_EQ(uplink->queues(), 4);
    send_and_receive_by_many_ports(*uplink);
}

TEST_F(XdpProbeTest, AQueueThatComesLaterLosesNothing) {
    lay_cable_of_four_queues();
    run("ethtool -L many rx 1 tx 1");
    run("ethtool -L source rx 1 tx 1");
    bring_it_up();
    const auto steering = steer_to_device("many");
    const auto uplink = open_xdp("many", Mode::native, *steering);
    ASSERT_EQ(uplink->queues(), 1);
    run("ethtool -L many rx 4 tx 1");
    run("ethtool -L source rx 1 tx 4");
    send_and_receive_by_many_ports(*uplink);
}

TEST_F(XdpProbeTest, TooManyQueuesAreRefused) {
    ip("link add many numrxqueues 65 numtxqueues 65 type veth peer name source");
    const auto steering = Steering::create("many").value();
    EXPECT_THAT(refusal("many", Mode::generic, *steering), HasSubstr("too many queues"));
}

// A bridge has no driver that could do it.
TEST_F(XdpProbeTest, AnyInterfaceCanHaveItInTheStack) {
    there.enter();
    ip("link set far address 02:00:00:00:00:10");
    ip("link add br0 address 02:00:00:00:00:02 mtu 1500 type bridge");
    ip("link set far mtu 1500");
    set_up("br0");
    ip("link set far master br0");
    wait_until_up("br0");
    const auto steering = steer_to_device("br0");
    EXPECT_THAT(refusal("br0", Mode::native, *steering), HasSubstr("not supported"));
    const auto bridge = open_xdp("br0", Mode::generic, *steering);
    here.enter();
    send_raw("near", ipv4({.fill = 1}));
    EXPECT_EQ(receive(*bridge), ipv4({.fill = 1}));
    const auto near = PacketUplink::create("near").value();
    there.enter();
    send(*bridge, ipv4({.fill = 2}, 1));
    EXPECT_EQ(receive(*near), ipv4({.fill = 2}, 1));
}

} // namespace
} // namespace vrdma::wire
