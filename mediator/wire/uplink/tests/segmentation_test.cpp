// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Frames that leave as one, and who gets them.
#include <gtest/gtest.h>
#include <linux/if_packet.h>
#include <sys/socket.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "device_end.h"
#include "exchange.h"
#include "mediator/wire/bytes.h"
#include "mediator/wire/packet.h"
#include "mediator/wire/segments.h"
#include "mediator/wire/uplink/offload.h"
#include "mediator/wire/uplink/packet_socket.h"
#include "mediator/wire/uplink/segmentation_doubt.h"
#include "mediator/wire/uplink/send_batch.h"
#include "mediator/wire/uplink/socket_option.h"
#include "network.h"
#include "two_packet_uplinks.h"
#include "vrdma/roce.h"

namespace vrdma::wire {
namespace {

Path path_to_device(bool over_ipv6) {
    Path path;
    path.source_mac = {2, 0, 0, 0, 0, 1};
    path.target_mac = device_mac;
    path.source = over_ipv6 ? Gid{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1} : ipv4_gid(1);
    path.target = over_ipv6 ? ipv6_gid : ipv4_gid(2);
    path.hop_limit = 64;
    path.source_port = 50000;
    return path;
}

Frame packet(const Path& path, std::uint32_t psn, std::size_t payload_bytes) {
    Headers headers;
    headers.opcode = VRDMA_ROCE_RC_WRITE_MIDDLE;
    headers.psn = psn;
    headers.target_qpn = 17;
    const std::size_t before = header_size(path, headers.opcode);
    Frame frame(before + payload_bytes + trailer_size(payload_bytes));
    std::fill_n(frame.begin() + static_cast<std::ptrdiff_t>(before), payload_bytes,
                static_cast<std::byte>(psn));
    EXPECT_EQ(finish(frame, path, headers, payload_bytes), frame.size());
    return frame;
}

std::vector<Frame> message(const Path& path, std::uint32_t psn, std::size_t packets,
                           std::size_t payload_bytes, std::size_t last) {
    std::vector<Frame> frames;
    for (std::size_t i = 0; i < packets; ++i) {
        frames.push_back(packet(path, psn + static_cast<std::uint32_t>(i),
                                i + 1 < packets ? payload_bytes : last));
    }
    return frames;
}

// The ICRC does not cover UDP's checksum, which who segments computes.
Frame without_checksum(Frame frame) {
    store(frame, SegmentHeaders::of(frame).value().udp_at() + offsetof(vrdma_udp, checksum),
          std::uint16_t{0});
    return frame;
}

bool is_intact(const Frame& frame) {
    Packet packet;
    return parse(frame, packet) == Drop::none;
}

// Reads what a socket has. In front of each frame are bytes that do not count.
std::vector<Frame> read_all(int socket, std::ptrdiff_t in_front = 0) {
    std::vector<Frame> frames;
    while (readable(socket, frames.empty() ? 2000 : 0)) {
        Frame frame(std::size_t{1} << 17);
        frame.resize(static_cast<std::size_t>(::recv(socket, frame.data(), frame.size(), 0)));
        frames.emplace_back(frame.begin() + in_front, frame.end());
    }
    return frames;
}

void send_all(Uplink& uplink, std::span<const Frame> frames) {
    for (const Frame& frame : frames) {
        commit(uplink, frame);
    }
    uplink.flush();
}

void expect_all(Uplink& uplink, std::span<const Frame> frames) {
    for (const Frame& frame : frames) {
        const Frame got = receive(uplink);
        ASSERT_TRUE(is_intact(got));
        ASSERT_EQ(without_checksum(got), frame);
    }
    EXPECT_FALSE(readable(uplink));
}

class Segmentation : public TwoPacketUplinks {
  protected:
    // A socket that knows nothing of segments.
    UniqueFd plain_socket_there() const {
        there.enter();
        UniqueFd socket = open_packet_socket().value();
        EXPECT_TRUE(set_option(socket.get(), SOL_PACKET, PACKET_VNET_HDR, 0));
        EXPECT_TRUE(bind_packet_socket(socket.get(), read_link("far").value().index));
        here.enter();
        return socket;
    }
};

constexpr std::uint32_t before_wrap = 0x12fffa; // of the identification

TEST_F(Segmentation, AVirtualCablePassesThemOnAsOne) {
    const UniqueFd plain = plain_socket_there();
    const auto frames = message(path_to_device(false), before_wrap, 40, 1024, 100);
    send_all(*near, frames);
    EXPECT_EQ(read_all(plain.get()).size(), 1);
    expect_all(*far, frames);
}

TEST_F(Segmentation, WhereTheKernelSegmentsEachIsAsItWasSent) {
    run("ethtool -K near tx-udp-segmentation off");
    const UniqueFd plain = plain_socket_there();
    for (const bool over_ipv6 : {false, true}) {
        const auto frames = message(path_to_device(over_ipv6), before_wrap, 15, 4096, 8);
        send_all(*near, frames);
        const auto seen = read_all(plain.get());
        ASSERT_EQ(seen.size(), frames.size());
        for (std::size_t i = 0; i < frames.size(); ++i) {
            EXPECT_TRUE(is_intact(seen[i]));
            EXPECT_EQ(without_checksum(seen[i]), frames[i]);
        }
        expect_all(*far, frames);
    }
}

TEST_F(Segmentation, ATagIsOnEach) {
    Path path = path_to_device(false);
    path.vlan = device_vlan;
    path.priority = 3;
    const auto frames = message(path, 100, 20, 1024, 1024);
    send_all(*near, frames);
    expect_all(*far, frames);
    run("ethtool -K near tx-udp-segmentation off");
    send_all(*near, frames);
    expect_all(*far, frames);
}

// The first packet of a message has more headers, and its last one less payload.
TEST_F(Segmentation, FramesOfAllKindsKeepTheirOrder) {
    std::vector<Frame> frames;
    for (std::uint32_t i = 0; i < 200; ++i) {
        Path path = path_to_device(i % 16 == 7);
        path.source_port = static_cast<std::uint16_t>(50000 + i / 50);
        frames.push_back(packet(path, 3 * (i / 40) + i, i % 9 == 0 ? 8 + i : 1024));
    }
    send_all(*near, frames);
    expect_all(*far, frames);
}

TEST_F(Segmentation, AnMtuThatBecomesSmallerHoldsForEach) {
    ip("link set near mtu 1500");
    EXPECT_LT(near->frame_size(), 4096);
    send_all(*near, message(path_to_device(false), 1, 10, 4096, 4096));
    EXPECT_EQ(near->losses().refused, 10);
    const auto frames = message(path_to_device(false), 1, 10, 1024, 1024);
    send_all(*near, frames);
    expect_all(*far, frames);
}

// The interface loses what it should segment; expect a silence to have frames sent one by one, and
// the next ones as well.
TEST_F(Segmentation, IsGivenUpForAWhileWhereItIsALie) {
    run("tc qdisc add dev near clsact");
    // ld len; jgt #5000, drop, pass; drop: ret TC_ACT_SHOT; pass: ret TC_ACT_UNSPEC
    run("tc filter add dev near egress bpf da bytecode"
        " '4,128 0 0 0,37 0 1 5000,6 0 0 2,6 0 0 4294967295'");
    const auto frames = message(path_to_device(false), 1, 10, 1024, 1024);
    send_all(*near, frames);
    EXPECT_FALSE(readable(*far));
    near->note_silence();
    send_all(*near, frames);
    expect_all(*far, frames);
    send_all(*near, frames);
    expect_all(*far, frames);
}

// A sender says a wrong size: what arrives has wrong ICRCs, and then comes the next frame.
TEST_F(Segmentation, AWrongSizeIsTheSendersLoss) {
    const auto frames = message(path_to_device(false), 1, 8, 1024, 1024);
    auto headers = SegmentHeaders::of(frames[0]).value();
    Frame whole(sizeof(Offload));
    const std::size_t bytes = 8 * (frames[0].size() - headers.size());
    std::ranges::copy(headers.whole(bytes), std::back_inserter(whole));
    whole.resize(whole.size() + bytes);
    store(whole, 0,
          Offload{Offload::needs_checksum, Offload::udp_segmentation,
                  static_cast<std::uint16_t>(headers.size()), 500,
                  static_cast<std::uint16_t>(headers.udp_at()), offsetof(vrdma_udp, checksum)});
    const UniqueFd hostile =
        open_sending_socket(static_cast<int>(read_link("near").value().index), 0).value();
    ASSERT_EQ(::send(hostile.get(), whole.data(), whole.size(), 0),
              static_cast<ssize_t>(whole.size()));
    for (std::size_t left = bytes; left > 0; left -= std::min<std::size_t>(left, 500)) {
        EXPECT_FALSE(is_intact(receive(*far)));
    }
    send_all(*near, frames);
    expect_all(*far, frames);
}

TEST(SegmentationDoubt, EndsAfterAWindow) {
    SegmentationDoubt doubt;
    EXPECT_FALSE(doubt.any());
    doubt.note_silence();
    EXPECT_TRUE(doubt.any());
    doubt.sent(SegmentationDoubt::shortest - 1);
    EXPECT_TRUE(doubt.any());
    doubt.sent(64);
    EXPECT_FALSE(doubt.any());
}

// The number of frames that go one by one after a silence.
std::size_t frames_in_doubt(SegmentationDoubt& doubt) {
    std::size_t frames = 0;
    for (doubt.note_silence(); doubt.any(); ++frames) {
        doubt.note_silence(); // of another sender
        doubt.sent(1);
    }
    return frames;
}

// Silence comes soon after each doubt; expect doubts that double up to their limit, and to begin
// anew when many frames were answered.
TEST(SegmentationDoubt, GrowsWhereItIsRight) {
    SegmentationDoubt doubt;
    std::size_t expected = SegmentationDoubt::shortest;
    for (int i = 0; i < 20; ++i) {
        EXPECT_EQ(frames_in_doubt(doubt), expected);
        doubt.sent(SegmentationDoubt::proof - 1);
        expected = std::min(2 * expected, SegmentationDoubt::longest);
    }
    doubt.sent(1);
    EXPECT_EQ(frames_in_doubt(doubt), SegmentationDoubt::shortest);
}

// A network that takes no message longer than that: a socket pair, which holds as much.
class ShortNetwork : public testing::Test {
  protected:
    explicit ShortNetwork(int longest = 10000) {
        int ends[2];
        EXPECT_EQ(::socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, ends), 0);
        near = UniqueFd{ends[0]};
        far = UniqueFd{ends[1]};
        EXPECT_TRUE(set_option(near.get(), SOL_SOCKET, SO_SNDBUF, longest));
    }

    void commit_all(std::span<const Frame> frames) {
        for (const Frame& frame : frames) {
            std::ranges::copy(frame, batch.prepare().begin());
            batch.commit(frame.size());
        }
    }

    std::size_t flush() { return batch.flush(near.get(), max_frame_size); }

    UniqueFd near;
    UniqueFd far;
    SendBatch batch;
};

TEST_F(ShortNetwork, GetsOneByOneWhatItRefusesAsOne) {
    const auto frames = message(path_to_device(false), 7, 30, 4096, 50);
    commit_all(frames);
    std::vector<Frame> got;
    for (std::size_t i = 0; i < frames.size() && got.size() < frames.size(); ++i) {
        EXPECT_EQ(flush(), 0) << "nothing is lost";
        std::ranges::move(read_all(far.get(), sizeof(Offload)), std::back_inserter(got));
    }
    EXPECT_EQ(got, frames);
    EXPECT_FALSE(batch.may_join());
}

class LongNetwork : public ShortNetwork {
  protected:
    LongNetwork() : ShortNetwork{1 << 20} {}
};

// A message of one frame is that frame; others are as long as a receiver has room for.
TEST_F(LongNetwork, GetsFramesAsFewMessages) {
    const auto alone = packet(path_to_device(false), 1, 4096);
    commit_all({&alone, 1});
    EXPECT_EQ(flush(), 0);
    EXPECT_EQ(read_all(far.get(), sizeof(Offload)), std::vector<Frame>{alone});
    const auto frames = message(path_to_device(false), 7, 30, 4096, 50);
    commit_all(frames);
    EXPECT_EQ(flush(), 0);
    const auto messages = read_all(far.get(), sizeof(Offload));
    ASSERT_EQ(messages.size(), 2);
    EXPECT_LE(messages[0].size(), max_segmented_size);
    EXPECT_GT(messages[0].size() + frames[0].size(), max_segmented_size);
}

TEST_F(LongNetwork, GetsRoceV1FrameByFrame) {
    Path path = path_to_device(true);
    path.type = Encapsulation::roce_v1;
    const auto frames = message(path, 7, 5, 1024, 1024);
    commit_all(frames);
    EXPECT_EQ(flush(), 0);
    EXPECT_EQ(read_all(far.get(), sizeof(Offload)), frames);
}

} // namespace
} // namespace vrdma::wire
