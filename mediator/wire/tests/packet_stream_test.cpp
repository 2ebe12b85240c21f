// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/wire/packet_stream.h"

#include <gtest/gtest.h>

#include <span>

#include "mediator/wire/tests/frames.h"

namespace vrdma::wire {
namespace {

constexpr std::size_t sizes[] = {0, 1, 1024, 1024, 1023, 4096, 8};

// A packet that comes after `number` others.
Headers headers_after(std::uint8_t opcode, std::size_t number) {
    Headers headers = headers_of(opcode);
    headers.psn = static_cast<std::uint32_t>(0xfffd + 7 * number) & 0xffffff;
    headers.ack_request = number % 2 != 0;
    return headers;
}

Bytes written(PacketWriter& writer, const Path& path, const Headers& headers,
              const Bytes& payload) {
    const std::size_t before = header_size(path, headers.opcode);
    Bytes frame(before + payload.size() + trailer_size(payload.size()), std::byte{0xee});
    std::ranges::copy(payload, frame.begin() + static_cast<std::ptrdiff_t>(before));
    EXPECT_EQ(writer.finish(frame, path, headers, payload.size()), frame.size());
    return frame;
}

// Expects each packet to be as one that was written alone, whatever was written before.
TEST(PacketWriter, RemembersNothingThatDiffers) {
    PacketWriter writer;
    std::size_t number = 0;
    for (int turn = 0; turn < 2; ++turn) {
        for (const Path& path : all_paths()) {
            for (const std::uint8_t opcode : all_opcodes()) {
                const std::size_t bytes =
                    shape_of(opcode).may_have_payload ? sizes[number % std::size(sizes)] : 0;
                const Headers headers = headers_after(opcode, ++number);
                const Bytes payload = payload_of(bytes);
                ASSERT_EQ(written(writer, path, headers, payload), frame_of(path, headers, payload))
                    << "opcode " << unsigned{opcode};
            }
        }
    }
}

// Each field of a path is in the headers of the next packet.
TEST(PacketWriter, NoticesEachChangeOfThePath) {
    PacketWriter writer;
    const Path first = tagged(ipv6_path());
    const auto expect = [&](auto&& change) {
        Path path = first;
        change(path);
        const Headers headers = headers_after(VRDMA_ROCE_RC_SEND_ONLY, 1);
        written(writer, first, headers, {});
        EXPECT_EQ(written(writer, path, headers, {}), frame_of(path, headers, {}));
    };
    expect([](Path& path) { path.type = Encapsulation::roce_v1; });
    expect([](Path& path) { ++path.source_mac[5]; });
    expect([](Path& path) { ++path.target_mac[0]; });
    expect([](Path& path) { path.vlan.reset(); });
    expect([](Path& path) { ++*path.vlan; });
    expect([](Path& path) { ++path.priority; });
    expect([](Path& path) { ++path.source[15]; });
    expect([](Path& path) { ++path.target[0]; });
    expect([](Path& path) { ++path.traffic_class; });
    expect([](Path& path) { ++path.hop_limit; });
    expect([](Path& path) { ++path.flow_label; });
    expect([](Path& path) { ++path.source_port; });
}

void expect_same(const PacketReader& reader, const Bytes& frame) {
    Packet expected;
    ASSERT_EQ(parse(frame, expected), Drop::none);
    EXPECT_TRUE(reader.packet().path == expected.path);
    EXPECT_TRUE(reader.packet().headers == expected.headers);
    EXPECT_TRUE(std::ranges::equal(reader.packet().payload, expected.payload));
}

TEST(PacketReader, ReadsNextPacketsAsFirstOnes) {
    for (const Path& path : all_paths()) {
        PacketReader reader;
        ASSERT_EQ(
            reader.parse(frame_of(path, headers_of(VRDMA_ROCE_RC_WRITE_ONLY), payload_of(100))),
            Drop::none);
        for (std::size_t number = 0; number < std::size(sizes); ++number) {
            const Bytes frame = frame_of(path, headers_after(VRDMA_ROCE_RC_SEND_MIDDLE, number),
                                         payload_of(sizes[number]));
            ASSERT_EQ(reader.parse_next(frame), Drop::none);
            expect_same(reader, frame);
        }
    }
}

// A wrong packet is dropped, and says nothing about the next one.
TEST(PacketReader, ReadsOnAfterAWrongPacket) {
    const Bytes good =
        frame_of(ipv4_path(), headers_after(VRDMA_ROCE_RC_SEND_ONLY, 1), payload_of(64));
    PacketReader reader;
    ASSERT_EQ(reader.parse(good), Drop::none);
    for (std::size_t at = 42; at < good.size(); ++at) {
        Bytes wrong = good;
        wrong[at] ^= std::byte{0x10};
        Packet packet;
        ASSERT_EQ(reader.parse_next(wrong), parse(wrong, packet)) << "byte " << at;
        ASSERT_EQ(reader.parse_next(good), Drop::none);
        expect_same(reader, good);
    }
}

// A frame that has no room for a transport's headers is looked at from its beginning.
TEST(PacketReader, RefusesAFrameThatEndsTooEarly) {
    const Bytes good = frame_of(ipv4_path(), headers_after(VRDMA_ROCE_RC_SEND_ONLY, 1), {});
    PacketReader reader;
    for (std::size_t bytes = 0; bytes < good.size(); ++bytes) {
        ASSERT_EQ(reader.parse(good), Drop::none);
        EXPECT_NE(reader.parse_next(std::span{good}.first(bytes)), Drop::none);
    }
}

TEST(PacketReader, ReadsTheFirstPacketWithoutOneBefore) {
    const Bytes good =
        frame_of(ipv6_path(), headers_after(VRDMA_ROCE_RC_SEND_ONLY, 1), payload_of(8));
    PacketReader reader;
    ASSERT_EQ(reader.parse_next(good), Drop::none);
    expect_same(reader, good);
}

} // namespace
} // namespace vrdma::wire
