// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/wire/packet.h"

#include <gtest/gtest.h>

#include <map>

#include "mediator/wire/tests/frames.h"

namespace vrdma::wire {
namespace {

// Fields that the opcode does not have stay as in a new packet.
Headers as_received(const Headers& sent) {
    Headers headers = sent;
    const std::uint16_t extended = shape_of(sent.opcode).extended;
    const auto only_with = [&](unsigned any, auto... fields) {
        if ((extended & any) == 0) {
            ((headers.*fields = 0), ...);
        }
    };
    only_with(ext_xrceth, &Headers::srqn);
    only_with(ext_deth, &Headers::qkey, &Headers::source_qpn);
    only_with(ext_reth, &Headers::length);
    only_with(ext_reth | ext_atomic_eth, &Headers::address);
    only_with(ext_reth | ext_atomic_eth | ext_ieth, &Headers::rkey);
    only_with(ext_atomic_eth, &Headers::swap_add, &Headers::compare);
    only_with(ext_aeth, &Headers::syndrome, &Headers::msn);
    only_with(ext_atomic_ack_eth, &Headers::original);
    only_with(ext_immdt, &Headers::imm);
    return headers;
}

// Expects that a frame arrives as it was sent, and is as long as was said.
void expect_arrival(const Path& path, const Headers& headers, std::size_t payload_bytes) {
    const Bytes payload = payload_of(payload_bytes);
    const Bytes frame = frame_of(path, headers, payload);
    Packet packet;
    ASSERT_EQ(parse(frame, packet), Drop::none);
    EXPECT_TRUE(packet.path == path);
    EXPECT_TRUE(packet.headers == as_received(headers));
    EXPECT_EQ(Bytes(packet.payload.begin(), packet.payload.end()), payload);
}

TEST(Packet, ArrivesWithEveryOpcodeOnEveryPath) {
    for (const Path& path : all_paths()) {
        for (const std::uint8_t opcode : all_opcodes()) {
            SCOPED_TRACE(testing::Message() << "opcode " << unsigned{opcode});
            expect_arrival(path, headers_of(opcode), 0);
        }
    }
}

TEST(Packet, ArrivesWithEveryPayloadThatItsOpcodeMayHave) {
    for (const std::uint8_t opcode : all_opcodes()) {
        if (!shape_of(opcode).may_have_payload) {
            continue;
        }
        for (const std::size_t bytes : {1, 2, 3, 4, 5, 1023, 4096}) {
            SCOPED_TRACE(testing::Message() << "opcode " << unsigned{opcode} << ", " << bytes);
            expect_arrival(ipv4_path(), headers_of(opcode), bytes);
            expect_arrival(roce_v1_path(), headers_of(opcode), bytes);
        }
    }
}

TEST(Packet, ArrivesWithEachFlag) {
    Headers headers = headers_of(VRDMA_ROCE_RC_SEND_ONLY);
    for (bool Headers::*const flag : {&Headers::solicited, &Headers::migrated, &Headers::fecn,
                                      &Headers::becn, &Headers::ack_request}) {
        headers.*flag = !(headers.*flag);
        expect_arrival(ipv6_path(), headers, 5);
    }
}

TEST(Packet, OfTheLargestPathMtuFits) {
    std::size_t largest = 0;
    for (const std::uint8_t opcode : all_opcodes()) {
        largest = std::max(largest, header_size(tagged(ipv6_path()), opcode));
    }
    EXPECT_LE(largest + 4096 + trailer_size(4096), max_frame_size);
}

// The size of BTH and extended headers, by operation.
using Sizes = std::map<unsigned, std::size_t>;

Sizes sizes_of(unsigned transport) {
    Sizes sizes;
    for (unsigned operation = 0; operation < 32; ++operation) {
        const Shape& shape = shape_of(static_cast<std::uint8_t>(transport | operation));
        if (shape.known) {
            sizes[operation] = shape.size;
        }
    }
    return sizes;
}

// IBA table 38 and annexes A14, A17 and A19. In XRC, requests have an XRCETH in addition, and
// responses do not.
TEST(Packet, HasTheHeadersThatItsOpcodeSays) {
    const Sizes rc{{0x00, 12}, {0x01, 12}, {0x02, 12}, {0x03, 16}, {0x04, 12}, {0x05, 16},
                   {0x06, 28}, {0x07, 12}, {0x08, 12}, {0x09, 16}, {0x0a, 28}, {0x0b, 32},
                   {0x0c, 28}, {0x0d, 16}, {0x0e, 12}, {0x0f, 16}, {0x10, 16}, {0x11, 16},
                   {0x12, 24}, {0x13, 40}, {0x14, 40}, {0x16, 16}, {0x17, 16}, {0x1d, 28}};
    const Sizes uc{{0x00, 12}, {0x01, 12}, {0x02, 12}, {0x03, 16}, {0x04, 12}, {0x05, 16},
                   {0x06, 28}, {0x07, 12}, {0x08, 12}, {0x09, 16}, {0x0a, 28}, {0x0b, 32}};
    const Sizes xrc{{0x00, 16}, {0x01, 16}, {0x02, 16}, {0x03, 20}, {0x04, 16}, {0x05, 20},
                    {0x06, 32}, {0x07, 16}, {0x08, 16}, {0x09, 20}, {0x0a, 32}, {0x0b, 36},
                    {0x0c, 32}, {0x0d, 16}, {0x0e, 12}, {0x0f, 16}, {0x10, 16}, {0x11, 16},
                    {0x12, 24}, {0x13, 44}, {0x14, 44}, {0x16, 20}, {0x17, 20}, {0x1d, 32}};
    EXPECT_EQ(sizes_of(VRDMA_ROCE_RC), rc);
    EXPECT_EQ(sizes_of(VRDMA_ROCE_UC), uc);
    EXPECT_EQ(sizes_of(VRDMA_ROCE_RD), Sizes{});
    EXPECT_EQ(sizes_of(VRDMA_ROCE_UD), (Sizes{{0x04, 20}, {0x05, 24}}));
    EXPECT_EQ(sizes_of(0x80), (Sizes{{0x01, 28}})); // CNP
    EXPECT_EQ(sizes_of(VRDMA_ROCE_XRC), xrc);
    EXPECT_EQ(sizes_of(0xc0), Sizes{});
    EXPECT_EQ(sizes_of(0xe0), Sizes{});
}

// The bytes before the ICRC, field by field.
Bytes without_icrc(const Bytes& frame) {
    return {frame.begin(), frame.end() - 4};
}

TEST(Packet, OfRoceV1IsWrittenAsSpecified) {
    Path path = tagged(roce_v1_path());
    path.source = ipv6(1);
    Headers headers = headers_of(VRDMA_ROCE_XRC_WRITE_ONLY_WITH_IMM);
    headers.solicited = true;
    headers.becn = true;
    headers.imm = be32toh(0x11223344);
    EXPECT_EQ(without_icrc(frame_of(path, headers, payload_of(5))),
              from_hex("525400040506 525400010203 8100aabc 8915"
                       // GRH: 36 bytes of headers, 5 of payload, 3 of padding, 4 of ICRC
                       "66212345 0030 1b 3f fd000001020304050607 08090a0b0c01"
                       "00000000000000000000ffffc0000202"
                       "ab f0 8001 40c0ffee 80fedcba" // BTH: solicited, migrated, 3 of padding
                       "00765432"                     // XRCETH
                       "f102030405060708 91a2b3c4 81726354 11223344"
                       "01080f161d 000000"));
}

TEST(Packet, OverIpv4IsWrittenAsSpecified) {
    Headers headers = headers_of(VRDMA_ROCE_RC_COMPARE_SWAP);
    headers.migrated = false;
    headers.fecn = true;
    EXPECT_EQ(without_icrc(frame_of(ipv4_path(), headers, {})),
              from_hex("525400040506 525400010203 0800"
                       "4562 0048 dcba 4000 3f11 da84 c0000201 c0000202"
                       "c123 12b7 0034 0000"
                       "13 00 8001 80c0ffee 80fedcba"
                       "f102030405060708 91a2b3c4 f1e2d3c4b5a69788 8899aabbccddeeff"));
}

TEST(Packet, OverIpv6IsWrittenAsSpecified) {
    Headers headers = headers_of(VRDMA_ROCE_UD_SEND_ONLY);
    headers.ack_request = false;
    EXPECT_EQ(without_icrc(frame_of(ipv6_path(), headers, payload_of(2))),
              from_hex("525400040506 525400010203 86dd"
                       "662abcde 0024 11 3f fd0000010203040506070809 0a0b0c01"
                       "fd0000010203040506070809 0a0b0c02"
                       "c123 12b7 0024 0000"
                       "64 60 8001 00c0ffee 00fedcba"
                       "80010000 00fffffe 0108 0000"));
}

TEST(Packet, OfAResponseIsWrittenAsSpecified) {
    const Bytes frame = frame_of(ipv4_path(), headers_of(VRDMA_ROCE_RC_ATOMIC_ACKNOWLEDGE), {});
    const Bytes expected = from_hex("12 40 8001 00c0ffee 80fedcba 61abcdef a1b2c3d4e5f60718");
    EXPECT_EQ(Bytes(frame.begin() + 42, frame.end() - 4), expected);
}

TEST(Packet, MayBeFollowedByEthernetsPadding) {
    for (const Path& path : all_paths()) {
        Bytes frame = frame_of(path, headers_of(VRDMA_ROCE_RC_SEND_ONLY), payload_of(1));
        frame.resize(frame.size() + 46, std::byte{0x5a});
        Packet packet;
        ASSERT_EQ(parse(frame, packet), Drop::none);
        EXPECT_EQ(Bytes(packet.payload.begin(), packet.payload.end()), payload_of(1));
    }
}

// A UDP checksum may be there, and be wrong: the ICRC says whether the packet is whole.
TEST(Packet, MayHaveAUdpChecksum) {
    Bytes frame = frame_of(ipv4_path(), headers_of(VRDMA_ROCE_RC_SEND_ONLY), payload_of(1));
    frame[14 + 20 + 6] = std::byte{0x12};
    Packet packet;
    EXPECT_EQ(parse(frame, packet), Drop::none);
}

} // namespace
} // namespace vrdma::wire
