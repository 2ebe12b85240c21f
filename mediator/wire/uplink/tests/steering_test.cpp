// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <optional>

#include "device_end.h"
#include "exchange.h"
#include "network.h"

namespace vrdma::wire {
namespace {

SteeredAddress address(const Gid& gid, Encapsulation type = Encapsulation::roce_v2,
                       const Mac& mac = device_mac) {
    return {gid, mac, type};
}

std::unique_ptr<Steering> steer_far() {
    return Steering::create("far").value();
}

int filters() {
    const std::string shown = output_of("tc filter show dev far ingress");
    int found = 0;
    for (std::size_t at = shown.find("vrdma"); at != std::string::npos;
         at = shown.find("vrdma", at + 1)) {
        ++found;
    }
    return found;
}

bool has_clsact() {
    return output_of("tc qdisc show dev far").find("clsact") != std::string::npos;
}

// The far host's bridge forwards frames to a guest that has the same MAC as the device.
class BridgeSteeringTest : public TwoHosts {
  protected:
    BridgeSteeringTest() {
        there.enter();
        ip("link set far address 02:00:00:00:00:10");
        ip("link add br0 type bridge");
        ip("link add tap type veth peer name guest address 02:00:00:00:00:02");
        for (const char* interface : {"br0", "tap", "guest"}) {
            set_up(interface);
        }
        ip("link set far master br0");
        ip("link set tap master br0");
        for (const char* interface : {"tap", "guest"}) {
            wait_until_up(interface);
        }
        guest = PacketUplink::create("guest").value();
        far = PacketUplink::create("far").value();
        steering = steer_far();
    }

    void send(const Frame& frame) const {
        here.enter();
        send_raw("near", frame);
        there.enter();
    }

    // The uplink sees all frames. The guest sees those that are not a device's.
    void expect_passed(const Frame& frame) const {
        send(frame);
        EXPECT_EQ(receive(*far), frame);
        EXPECT_EQ(receive(*guest), frame);
    }
    void expect_kept(const Frame& frame) const {
        send(frame);
        EXPECT_EQ(receive(*far), frame);
        EXPECT_FALSE(readable(*guest, 50));
    }

    std::unique_ptr<PacketUplink> guest;
    std::unique_ptr<PacketUplink> far;
    std::unique_ptr<Steering> steering;
};

TEST_F(BridgeSteeringTest, OthersTrafficPasses) {
    for (const Frame& frame :
         {ipv4({}), ipv4({.options = 8}), ipv6(IPPROTO_UDP, 4791), roce_v1()}) {
        expect_passed(frame);
    }
}

TEST_F(BridgeSteeringTest, PacketsToADeviceStop) {
    ASSERT_TRUE(steering->add(address(ipv4_gid(2))));
    ASSERT_TRUE(steering->add(address(ipv6_gid)));
    ASSERT_TRUE(steering->add(address(link_local_gid, Encapsulation::roce_v1)));
    for (const Frame& frame : {ipv4({}), ipv4({.options = 40}), ipv6(IPPROTO_UDP, 4791), roce_v1(),
                               tagged(ipv4({}), 0)}) {
        expect_kept(frame);
    }
    expect_passed(tagged(ipv4({}), 7));
}

// The priority in a tag does not belong to the VLAN's number.
TEST_F(BridgeSteeringTest, AnAddressIsInOneVlan) {
    SteeredAddress in_vlan = address(ipv4_gid(2));
    in_vlan.vlan = 7;
    ASSERT_TRUE(steering->add(in_vlan));
    expect_kept(tagged(ipv4({}), 7));
    expect_kept(tagged(ipv4({}), 3 << 13 | 7));
    expect_passed(tagged(ipv4({}), 8));
    expect_passed(ipv4({}));
    steering->remove(in_vlan);
    expect_passed(tagged(ipv4({}), 7));
}

// Each frame differs from a device's in one thing.
TEST_F(BridgeSteeringTest, PacketsToOthersPass) {
    ASSERT_TRUE(steering->add(address(ipv4_gid(2))));
    ASSERT_TRUE(steering->add(address(ipv6_gid, Encapsulation::roce_v1)));
    ASSERT_TRUE(steering->add(address(link_local_gid)));
    for (const Frame& frame :
         {ipv4({.last_byte_of_target = 3}), ipv4({}, 3), ipv6(IPPROTO_UDP, 4791), roce_v1()}) {
        expect_passed(frame);
    }
}

TEST_F(BridgeSteeringTest, AnAddressIsGivenBack) {
    ASSERT_TRUE(steering->add(address(ipv4_gid(2))));
    steering->remove(address(ipv4_gid(3)));
    expect_kept(ipv4({}));
    steering->remove(address(ipv4_gid(2)));
    expect_passed(ipv4({}));
    ASSERT_TRUE(steering->add(address(ipv4_gid(2))));
    expect_kept(ipv4({}));
    steering.reset();
    expect_passed(ipv4({}));
}

TEST_F(BridgeSteeringTest, TwoDaemonsSteerOneInterface) {
    auto second = steer_far();
    ASSERT_TRUE(steering->add(address(ipv4_gid(2))));
    ASSERT_TRUE(second->add(address(ipv4_gid(3))));
    expect_kept(ipv4({}));
    expect_kept(ipv4({.last_byte_of_target = 3}));
    steering.reset();
    expect_passed(ipv4({}));
    expect_kept(ipv4({.last_byte_of_target = 3}));
    second.reset();
    EXPECT_FALSE(has_clsact());
}

// A daemon dies without removing its filter: the next one replaces it.
TEST_F(BridgeSteeringTest, WhatADeadDaemonLeftIsTakenAway) {
    steering.reset();
    const pid_t child = ::fork();
    if (child == 0) {
        const auto dying = steer_far();
        ::_exit(dying->add(address(ipv4_gid(2))) ? 0 : 1);
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    ASSERT_EQ(status, 0);
    expect_kept(ipv4({}));
    EXPECT_EQ(filters(), 1);
    steering = steer_far();
    EXPECT_EQ(filters(), 1);
    expect_passed(ipv4({}));
    steering.reset();
    EXPECT_FALSE(has_clsact());
}

// The far host's own stack has the addresses 10.0.0.2 and 10.0.0.3.
class StackSteeringTest : public TwoHosts {
  protected:
    StackSteeringTest() {
        ip("addr add 10.0.0.1/24 dev near");
        there.enter();
        ip("addr add 10.0.0.2/24 dev far");
        ip("addr add 10.0.0.3/24 dev far");
        ip("neigh add 10.0.0.1 lladdr 02:00:00:00:00:01 dev far");
        here.enter();
        icmp = UniqueFd{::socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMP)};
        there.enter();
        steering = steer_far();
        EXPECT_TRUE(steering->add(address(ipv4_gid(2))));
    }

    void send(const Frame& frame) const {
        here.enter();
        send_raw("near", frame);
        there.enter();
    }

    // Whether an ICMP message has come back.
    bool refused() const {
        if (!readable(icmp.get(), 100)) {
            return false;
        }
        std::array<std::byte, 2048> message;
        return ::recv(icmp.get(), message.data(), message.size(), 0) > 0;
    }

    UniqueFd icmp;
    std::unique_ptr<Steering> steering;
};

TEST_F(StackSteeringTest, TheStackRefusesNoPacketOfADevice) {
    send(ipv4({.last_byte_of_target = 3}));
    EXPECT_TRUE(refused()) << "an address that is no device's";
    send(ipv4({}));
    EXPECT_FALSE(refused());
    send(ipv4({.port = 4792}));
    EXPECT_TRUE(refused()) << "no RoCE";
    steering->remove(address(ipv4_gid(2)));
    send(ipv4({}));
    EXPECT_TRUE(refused());
}

// rxe is such a socket in the kernel.
TEST_F(StackSteeringTest, ASocketOnRocesPortGetsOnlyItsOwn) {
    const UniqueFd reader{::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_port = htons(4791);
    ASSERT_EQ(::bind(reader.get(), reinterpret_cast<const sockaddr*>(&any), sizeof(any)), 0);
    send(ipv4({.fill = 1}));
    EXPECT_FALSE(readable(reader.get(), 50));
    send(ipv4({.fill = 2, .last_byte_of_target = 3}));
    EXPECT_TRUE(readable(reader.get(), 2000));
}

class SteeringTest : public TwoHosts {
  protected:
    SteeringTest() { there.enter(); }
};

TEST_F(SteeringTest, EverythingIsTakenBack) {
    const std::string before = output_of("tc qdisc show dev far; ip -d link show far");
    auto steering = steer_far();
    ASSERT_TRUE(steering->add(address(ipv4_gid(2), Encapsulation::roce_v2, {2, 0, 0, 0, 0, 9})));
    EXPECT_EQ(filters(), 1);
    steering.reset();
    EXPECT_EQ(output_of("tc qdisc show dev far; ip -d link show far"), before);
}

TEST_F(SteeringTest, TheQdiscOfOthersStays) {
    run("tc qdisc add dev far clsact");
    steer_far().reset();
    EXPECT_TRUE(has_clsact());
}

TEST_F(SteeringTest, FiltersOfOthersStay) {
    auto steering = steer_far();
    run("tc filter add dev far egress protocol ip u32 match u32 0 0 classid 1:1");
    steering.reset();
    EXPECT_TRUE(has_clsact());
    EXPECT_NE(output_of("tc filter show dev far egress").find("u32"), std::string::npos);
}

// A virtual cable has no filter of MACs, so it becomes promiscuous to receive one more.
TEST_F(SteeringTest, TheInterfaceReceivesFramesToADevice) {
    const auto promiscuous = [] {
        return output_of("ip -d link show far").find("promiscuity 1") != std::string::npos;
    };
    const auto steering = steer_far();
    const auto device = address(ipv4_gid(2), Encapsulation::roce_v2, {2, 0, 0, 0, 0, 9});
    EXPECT_FALSE(promiscuous());
    ASSERT_TRUE(steering->add(device));
    EXPECT_TRUE(promiscuous());
    steering->remove(device);
    steering->remove(device);
    EXPECT_FALSE(promiscuous());
}

TEST_F(SteeringTest, AnAddressIsAddedOnce) {
    const auto steering = steer_far();
    EXPECT_TRUE(steering->add(address(ipv6_gid)));
    EXPECT_EQ(steering->add(address(ipv6_gid)).error(), std::errc::file_exists);
    EXPECT_TRUE(steering->add(address(ipv6_gid, Encapsulation::roce_v1)));
}

TEST_F(SteeringTest, AnInterfaceHasSoManySlots) {
    std::vector<std::unique_ptr<Steering>> all;
    for (unsigned i = 0; i < Steering::slots; ++i) {
        all.push_back(steer_far());
    }
    EXPECT_EQ(Steering::create("far").error(), std::errc::device_or_resource_busy);
    EXPECT_EQ(filters(), Steering::slots);
    all.front().reset();
    EXPECT_TRUE(Steering::create("far"));
}

TEST_F(SteeringTest, AnInterfaceMayGo) {
    const auto steering = steer_far();
    ASSERT_TRUE(steering->add(address(ipv4_gid(2))));
    ip("link del far");
    EXPECT_EQ(Steering::create("far").error(), std::errc::no_such_device);
    steering->remove(address(ipv4_gid(2)));
}

// An interface that filters what it receives, as NICs do. Send to a group that nobody joined, and
// to one that was joined twice and left once; expect only the second to come.
TEST_F(TwoHosts, AFilteringInterfaceTakesJoinedGroups) {
    there.enter();
    ip("link add link far name filtering type macvlan mode private");
    set_up("filtering");
    wait_until_up("filtering");
    const auto filtering = PacketUplink::create("filtering").value();
    const auto steering = Steering::create("filtering").value();
    const Mac group{0x33, 0x33, 0, 0, 0x47, 0x11};
    ASSERT_TRUE(steering->join(group));
    ASSERT_TRUE(steering->join(group));
    steering->leave(group);
    const auto send_to = [&](const Mac& mac) {
        Frame frame = ipv4({});
        std::memcpy(frame.data(), mac.data(), mac.size());
        here.enter();
        send_raw("near", frame);
        there.enter();
        return frame;
    };
    // The filter is a hash of eight bits: sometimes it lets a group pass that nobody joined.
    constexpr std::uint8_t others = 16;
    for (std::uint8_t i = 0; i < others; ++i) {
        send_to({0x33, 0x33, 0, 0, 0x48, i});
    }
    const Frame wanted = send_to(group);
    unsigned passed = 0;
    while (passed < others && receive(*filtering) != wanted) {
        ++passed;
    }
    EXPECT_LT(passed, others / 2);
    steering->leave(group);
    EXPECT_EQ(output_of("ip maddr show dev filtering").find("33:33:00:00:47:11"),
              std::string::npos);
}

} // namespace
} // namespace vrdma::wire
