// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/wire/segments.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "mediator/wire/bytes.h"
#include "mediator/wire/tests/frames.h"

namespace vrdma::wire {
namespace {

constexpr std::size_t payload_bytes = 1024;

Headers headers_with(std::uint32_t psn, std::uint32_t qpn = 7) {
    Headers headers = headers_of(VRDMA_ROCE_RC_WRITE_MIDDLE);
    headers.psn = psn;
    headers.target_qpn = qpn;
    return headers;
}

// Packets that follow each other; the last one may be shorter.
std::vector<Bytes> packets(const Path& path, std::uint32_t psn, std::size_t count,
                           std::size_t last = payload_bytes) {
    std::vector<Bytes> frames;
    for (std::size_t i = 0; i < count; ++i) {
        frames.push_back(frame_of(path, headers_with(psn + static_cast<std::uint32_t>(i)),
                                  payload_of(i + 1 < count ? payload_bytes : last)));
    }
    return frames;
}

struct Joined {
    Bytes frame;
    std::size_t size = 0; // of a segment
};

// One frame of them, as who segments gets it.
Joined join(const std::vector<Bytes>& frames) {
    SegmentHeaders headers = SegmentHeaders::of(frames.front()).value();
    Bytes parts;
    for (const Bytes& frame : frames) {
        parts.insert(parts.end(), frame.begin() + static_cast<std::ptrdiff_t>(headers.size()),
                     frame.end());
    }
    const auto whole = headers.whole(parts.size());
    Bytes frame{whole.begin(), whole.end()};
    frame.insert(frame.end(), parts.begin(), parts.end());
    return {frame, frames.front().size() - headers.size()};
}

std::vector<Bytes> taken_apart(Joined joined) {
    std::vector<Bytes> frames;
    Segments segments{joined.frame, joined.size};
    for (auto frame = segments.next(); !frame.empty(); frame = segments.next()) {
        frames.emplace_back(frame.begin(), frame.end());
    }
    return frames;
}

std::vector<Path> roce_v2_paths() {
    return {ipv4_path(), ipv6_path(), tagged(ipv4_path()), tagged(ipv6_path())};
}

TEST(Segments, AreThePacketsThatWereJoined) {
    for (const Path& path : roce_v2_paths()) {
        const auto frames = packets(path, 0xfffe, 20, 8); // the identification begins again
        EXPECT_EQ(taken_apart(join(frames)), frames);
    }
}

// A sender compares each packet with the first one.
TEST(Segments, AreToldByTheirHeaders) {
    for (const Path& path : roce_v2_paths()) {
        const auto frames = packets(path, 0xfffe, 20, 8);
        const SegmentHeaders headers = SegmentHeaders::of(frames.front()).value();
        for (std::size_t i = 0; i < frames.size(); ++i) {
            EXPECT_TRUE(headers.begin(frames[i], i));
            EXPECT_EQ(headers.begin(frames[i], i + 1), !headers.has_identification());
        }
    }
}

// Change each byte of a packet's headers; expect it not to be a segment, except for IPv4's
// checksum, which who segments computes.
TEST(Segments, HaveNoOtherHeaders) {
    for (const Path& path : roce_v2_paths()) {
        const auto frames = packets(path, 1, 2);
        const SegmentHeaders headers = SegmentHeaders::of(frames.front()).value();
        const std::size_t checksum_at =
            headers.udp_at() - sizeof(vrdma_ipv4) + offsetof(vrdma_ipv4, checksum);
        for (std::size_t at = 0; at < headers.size(); ++at) {
            Bytes frame = frames.back();
            frame[at] ^= std::byte{1};
            const bool computed = headers.has_identification() && at / 2 == checksum_at / 2;
            EXPECT_EQ(headers.begin(frame, 1), computed) << at;
        }
    }
}

TEST(Segments, HaveAllOfTheirHeaders) {
    const auto frames = packets(ipv4_path(), 1, 2);
    const SegmentHeaders headers = SegmentHeaders::of(frames.front()).value();
    for (std::size_t bytes = 0; bytes <= headers.size(); ++bytes) {
        EXPECT_FALSE(headers.begin(std::span{frames.back()}.first(bytes), 1));
    }
}

TEST(Segments, OneIsEnough) {
    const auto frames = packets(ipv4_path(), 1, 1);
    EXPECT_EQ(taken_apart(join(frames)), frames);
}

// Those of answers are shorter than the headers in front of them.
TEST(Segments, MayBeShorterThanTheirHeaders) {
    for (const Path& path : roce_v2_paths()) {
        std::vector<Bytes> frames;
        for (std::uint32_t psn = 5; psn < 15; ++psn) {
            Headers headers = headers_with(psn);
            headers.opcode = VRDMA_ROCE_RC_ACKNOWLEDGE;
            frames.push_back(frame_of(path, headers, {}));
        }
        EXPECT_EQ(taken_apart(join(frames)), frames);
    }
}

// GRO looks at addresses and ports only.
TEST(Segments, MayBeOfSeveralQueuePairs) {
    std::vector<Bytes> frames;
    for (std::uint32_t i = 0; i < 6; ++i) {
        frames.push_back(
            frame_of(ipv4_path(), headers_with(100 + i, 7 + i % 2), payload_of(payload_bytes)));
    }
    EXPECT_EQ(taken_apart(join(frames)), frames);
}

TEST(Segments, MayAllHaveOneIdentification) {
    std::vector<Bytes> frames;
    for (std::uint32_t i = 0; i < 6; ++i) {
        frames.push_back(
            frame_of(ipv4_path(), headers_with(i << 16 | 3), payload_of(payload_bytes)));
    }
    EXPECT_EQ(taken_apart(join(frames)), frames);
}

TEST(Segments, AWrongOneDoesNotSpoilOthers) {
    for (const std::size_t wrong : {0, 1, 2}) {
        const auto frames = packets(ipv4_path(), 9, 4);
        Joined joined = join(frames);
        joined.frame[frames[0].size() + wrong * joined.size - 10] ^= std::byte{1};
        const auto apart = taken_apart(joined);
        ASSERT_EQ(apart.size(), frames.size());
        for (std::size_t i = 0; i < frames.size(); ++i) {
            Packet packet;
            const Drop expected = i == wrong ? Drop::icrc : Drop::none;
            EXPECT_EQ(parse(apart[i], packet), expected) << wrong << ", " << i;
        }
    }
}

// Cut a frame off everywhere: expect the packets that are whole.
TEST(Segments, ThatAreCutOffAreLeftOut) {
    const auto frames = packets(ipv4_path(), 9, 4);
    const Joined joined = join(frames);
    for (std::size_t size = 0; size <= joined.frame.size(); ++size) {
        const Joined cut{
            {joined.frame.begin(), joined.frame.begin() + static_cast<std::ptrdiff_t>(size)},
            joined.size};
        const std::size_t headers = frames[0].size() - joined.size;
        const std::size_t whole = size < headers ? 0 : (size - headers) / joined.size;
        const auto apart = taken_apart(cut);
        ASSERT_EQ(apart.size(), whole) << size;
        ASSERT_TRUE(std::ranges::equal(apart, std::span{frames}.first(whole))) << size;
    }
}

TEST(Segments, OfASizeThatNoPacketHasAreNone) {
    const Joined joined = join(packets(ipv4_path(), 9, 4));
    for (const std::size_t size : {std::size_t{0}, std::size_t{15}, max_frame_size + 1}) {
        EXPECT_TRUE(taken_apart({joined.frame, size}).empty()) << size;
    }
    EXPECT_EQ(taken_apart({joined.frame, 16}).size(), joined.size * 4 / 16);
    EXPECT_EQ(taken_apart({joined.frame, 4200}).size(), 1) << "the whole is a short segment";
}

TEST(Segments, OfOtherFramesAreNone) {
    EXPECT_TRUE(taken_apart({packets(roce_v1_path(), 9, 1)[0], 1040}).empty());
    Joined joined = join(packets(ipv4_path(), 9, 4));
    joined.frame[14 + offsetof(vrdma_ipv4, protocol)] = std::byte{6};
    EXPECT_TRUE(taken_apart(joined).empty());
    EXPECT_TRUE(taken_apart({{}, 1040}).empty());
}

// The length in the headers is less than the frame's, as where Ethernet pads.
TEST(Segments, EndWhereTheHeadersSay) {
    const auto frames = packets(ipv4_path(), 9, 2);
    Joined joined = join(frames);
    joined.frame.resize(joined.frame.size() + 5000);
    EXPECT_EQ(taken_apart(joined), frames);
}

} // namespace
} // namespace vrdma::wire
