// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/wire/uplink/packet_uplink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/bpf.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <thread>

#include "exchange.h"
#include "mediator/jail/system_calls.h"
#include "mediator/wire/uplink/bpf.h"
#include "mediator/wire/uplink/bpf_assembler.h"
#include "mediator/wire/uplink/packet_socket.h"
#include "mediator/wire/uplink/socket_option.h"
#include "network.h"
#include "two_packet_uplinks.h"

namespace vrdma::wire {
namespace {

using PacketUplinkTest = TwoPacketUplinks;

constexpr std::size_t seen = 64;

// Sees frames that leave by an interface: `seen` bytes of each, plus as many as its priority says.
UniqueFd tap(const std::string& interface) {
    BpfAssembler code;
    code.load(BPF_W, BPF_REG_0, BPF_REG_1, offsetof(__sk_buff, priority));
    code.plus(BPF_REG_0, seen);
    code.exit();
    const auto program = load_bpf_program(BPF_PROG_TYPE_SOCKET_FILTER, code.finish()).value();
    UniqueFd socket{::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0)};
    EXPECT_TRUE(set_option(socket.get(), SOL_SOCKET, SO_ATTACH_BPF, program.get()));
    EXPECT_TRUE(bind_packet_socket(socket.get(), read_link(interface).value().index));
    return socket;
}

// In the network namespace of this thread.
std::ptrdiff_t packet_sockets() {
    std::ifstream list{"/proc/thread-self/net/packet"};
    constexpr int title = 1;
    return std::count(std::istreambuf_iterator{list}, {}, '\n') - title;
}

TEST_F(PacketUplinkTest, ItsSocketsAreClosed) {
    EXPECT_EQ(packet_sockets(), Receiver::shapes.size() + Priorities::count);
    near.reset();
    EXPECT_EQ(packet_sockets(), 0);
}

// Sends more frames than there are slots for their length, of which there are some for others;
// expects as many as there are slots, the oldest ones.
TEST_F(PacketUplinkTest, AFullRingLosesTheNewestFrames) {
    constexpr std::size_t lost = 100;
    for (const std::size_t lane : {0u, 1u}) {
        const std::size_t kept = Receiver::shapes[lane].slots;
        const auto frame = [lane](std::size_t number) {
            return ipv4({.payload = 2000 * lane + number % 1700, .fill = static_cast<int>(lane)});
        };
        for (std::size_t i = 0; i < kept + lost; ++i) {
            send(*near, frame(i));
        }
        const Frame other = ipv4({.payload = 2000 - 1900 * lane});
        send(*near, other);
        for (std::size_t i = 0; i < kept; ++i) {
            ASSERT_EQ(receive(*far), frame(i));
        }
        EXPECT_EQ(receive(*far), other);
        EXPECT_FALSE(readable(*far));
        EXPECT_EQ(far->losses().overrun, lost * (lane + 1));
        send(*near, frame(9));
        EXPECT_EQ(receive(*far), frame(9));
    }
}

// Sends frames of all lengths in an order that no lane has, while they are received; expects this
// order.
TEST_F(PacketUplinkTest, FramesOfAnyLengthArriveInTheirOrder) {
    constexpr std::size_t sent = 1000; // there is room for all of them
    const auto frame = [](std::size_t number) {
        return ipv4({.payload = number * 2477 % 4096, .fill = static_cast<int>(number % 251)});
    };
    std::thread sender{[&] {
        for (std::size_t i = 0; i < sent; ++i) {
            send(*near, frame(i));
        }
    }};
    for (std::size_t i = 0; i < sent; ++i) {
        const Frame got = receive(*far);
        if (got != frame(i)) {
            ADD_FAILURE() << "frame " << i;
            break;
        }
    }
    sender.join();
}

TEST_F(PacketUplinkTest, AFrameLargerThanAnyOfRoceIsLost) {
    send_raw("near", ipv4({.payload = 8900}));
    send_raw("near", ipv4({.fill = 4}));
    ASSERT_TRUE(readable(*far, 2000));
    EXPECT_EQ(receive(*far), ipv4({.fill = 4}));
    EXPECT_EQ(far->losses().truncated, 1);
    EXPECT_FALSE(readable(*far));
}

TEST_F(PacketUplinkTest, TheLargestFrameIsTheMtusOrRoces) {
    EXPECT_EQ(near->frame_size(), max_frame_size);
    ip("link set near mtu 1280");
    EXPECT_EQ(near->frame_size(), 1298);
    ip("link set near mtu 9000");
    EXPECT_EQ(near->frame_size(), max_frame_size);
}

// A poller, which cannot open a socket, asks for the size; expect the MTU that the interface has by
// now.
TEST_F(PacketUplinkTest, APollerSeesAnMtuThatChanges) {
    ip("link set near mtu 1280");
    std::size_t size = 0;
    std::thread{[&] {
        ASSERT_TRUE(jail::allow_calls_of_poller(jail::Forbidden::refused));
        size = near->frame_size();
    }}.join();
    EXPECT_EQ(size, 1298);
}

// One frame is too long for the interface, whose MTU is smaller than when the uplink was made.
TEST_F(PacketUplinkTest, ALongFrameIsLostAlone) {
    ip("link set near mtu 1500");
    commit(*near, ipv4({.fill = 1}));
    commit(*near, ipv4({.payload = 2000}));
    commit(*near, ipv4({.fill = 2}));
    near->flush();
    EXPECT_EQ(receive(*far), ipv4({.fill = 1}));
    EXPECT_EQ(receive(*far), ipv4({.fill = 2}));
    EXPECT_EQ(near->losses().refused, 1);
}

TEST_F(PacketUplinkTest, AnInterfaceThatIsDownLosesFramesAndComesBack) {
    ip("link set near down");
    ASSERT_TRUE(readable(*near)) << "the socket's error wakes its thread";
    EXPECT_TRUE(near->receive().empty());
    near->woken();
    EXPECT_FALSE(readable(*near)) << "but once";
    send(*near, ipv4({}));
    EXPECT_EQ(near->losses().refused, 1);
    ip("link set near up");
    wait_until_up("near");
    send(*near, ipv4({.fill = 5}));
    EXPECT_EQ(receive(*far), ipv4({.fill = 5}));
    there.enter();
    send(*far, ipv4({.fill = 6}));
    EXPECT_EQ(receive(*near), ipv4({.fill = 6}));
}

TEST_F(PacketUplinkTest, AnInterfaceThatIsGoneLosesFrames) {
    ip("link del near");
    ASSERT_TRUE(readable(*near, 2000));
    near->woken();
    EXPECT_FALSE(readable(*near));
    for (int i = 0; i < 200; ++i) {
        commit(*near, ipv4({}));
    }
    near->flush();
    EXPECT_EQ(near->losses().refused, 200);
    EXPECT_TRUE(near->receive().empty());
}

TEST_F(PacketUplinkTest, OnlyEthernetIsAnUplink) {
    EXPECT_EQ(PacketUplink::create("none").error(), std::errc::no_such_device);
    EXPECT_EQ(PacketUplink::create("").error(), std::errc::no_such_device);
    EXPECT_EQ(PacketUplink::create("a name that is too long").error(), std::errc::no_such_device);
    EXPECT_EQ(PacketUplink::create("lo").error(), std::errc::not_supported);
}

// A frame that nobody has read yet stays as it was sent when its place in the batch is used again.
TEST_F(PacketUplinkTest, AReaderFindsWhatWasSent) {
    there.enter();
    ip("addr add 10.0.0.2/24 dev far");
    const UniqueFd reader{::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(4791);
    ASSERT_EQ(::bind(reader.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)),
              0);
    send(*near, ipv4({.payload = 4000, .fill = 1}));
    for (std::size_t i = 0; i < 4 * SendBatch::capacity; ++i) {
        commit(*near, ipv4({.payload = 4000, .fill = 2}));
    }
    near->flush();
    Frame read(4000);
    ASSERT_EQ(::recv(reader.get(), read.data(), read.size(), 0), 4000);
    EXPECT_EQ(read, Frame(4000, std::byte{1}));
}

// Send frames of all priorities in turn; expect the interface to get each with its own, and the
// peer to get all, those of one priority in their order.
TEST_F(PacketUplinkTest, TheInterfaceGetsThePriority) {
    constexpr int each = 20; // the tap has room for all of them
    constexpr int priorities = Priorities::count;
    const UniqueFd leaving = tap("near");
    const auto frame = [](int number, int priority) {
        return ipv4({.payload = 100 + static_cast<std::size_t>(number), .fill = priority});
    };
    for (int number = 0; number < each; ++number) {
        for (int priority = 0; priority < priorities; ++priority) {
            commit(*near, frame(number, priority), static_cast<std::uint8_t>(priority));
        }
    }
    near->flush();
    std::array<int, priorities> left{};
    for (int i = 0; i < each * priorities; ++i) {
        ASSERT_TRUE(readable(leaving.get(), 2000));
        Frame bytes(2 * seen);
        const auto length = ::recv(leaving.get(), bytes.data(), bytes.size(), 0);
        const int priority = static_cast<int>(length) - static_cast<int>(seen);
        ASSERT_EQ(static_cast<int>(bytes[seen - 1]), priority);
        ++left[static_cast<std::size_t>(priority)];
    }
    EXPECT_THAT(left, testing::Each(each));
    std::array<int, priorities> arrived{};
    for (int i = 0; i < each * priorities; ++i) {
        const Frame got = receive(*far);
        ASSERT_GT(got.size(), seen);
        const auto priority = static_cast<std::size_t>(got.back());
        ASSERT_LT(priority, arrived.size());
        ASSERT_EQ(got, frame(arrived[priority]++, static_cast<int>(priority)));
    }
}

} // namespace
} // namespace vrdma::wire
