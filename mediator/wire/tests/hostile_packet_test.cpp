// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// parse() and frames that the network may send. Each test says what is received, and why it is
// dropped.
#include <gtest/gtest.h>

#include "mediator/wire/bytes.h"
#include "mediator/wire/encapsulation.h"
#include "mediator/wire/icrc.h"
#include "mediator/wire/packet.h"
#include "mediator/wire/tests/frames.h"

namespace vrdma::wire {
namespace {

constexpr std::size_t ip_at = 14;
constexpr std::size_t grh_size = 40;
constexpr std::size_t ipv4_udp_at = ip_at + 20;
constexpr std::size_t ipv4_bth_at = ipv4_udp_at + 8;
constexpr std::size_t ipv6_udp_at = ip_at + grh_size;
constexpr std::size_t ipv6_bth_at = ipv6_udp_at + 8;
constexpr std::size_t v1_bth_at = ip_at + grh_size;

Drop drop_of(const Bytes& frame) {
    Packet packet;
    return parse(frame, packet);
}

Bytes send_only(const Path& path, std::size_t payload_bytes = 8) {
    return frame_of(path, headers_of(VRDMA_ROCE_RC_SEND_ONLY), payload_of(payload_bytes));
}

// Gives a frame a good ICRC and IPv4 checksum, so that it is dropped only because of what else is
// wrong with it.
Bytes mended(Bytes frame, const Path& path) {
    const Network network = network_of(path);
    const std::size_t at = link_size(path);
    if (network == Network::ipv4) {
        std::uint32_t sum = 0;
        store(frame, at + 10, std::uint16_t{0});
        for (std::size_t i = 0; i < 20; i += 2) {
            sum += load<std::uint16_t>(frame, at + i);
        }
        sum = (sum & 0xffff) + (sum >> 16);
        store(frame, at + 10, static_cast<std::uint16_t>(~((sum & 0xffff) + (sum >> 16))));
    }
    const std::size_t icrc_at = frame.size() - VRDMA_ROCE_ICRC_SIZE;
    store(frame, icrc_at, htole32(icrc(network, std::span{frame}.subspan(at, icrc_at - at))));
    return frame;
}

// The frame of SEND ONLY with one byte changed.
Drop with_byte(const Path& path, std::size_t at, unsigned value, std::size_t payload_bytes = 8) {
    Bytes frame = send_only(path, payload_bytes);
    frame.at(at) = static_cast<std::byte>(value);
    return drop_of(mended(frame, path));
}

// The frame of an opcode with a payload, even if it may have none.
Drop with_payload(std::uint8_t opcode, const Bytes& payload) {
    const Path path = roce_v1_path();
    Bytes frame = frame_of(path, headers_of(opcode), {});
    frame.insert(frame.end() - VRDMA_ROCE_ICRC_SIZE, payload.begin(), payload.end());
    store(frame, ip_at + 4, htobe16(static_cast<std::uint16_t>(frame.size() - v1_bth_at)));
    return drop_of(mended(frame, path));
}

TEST(HostilePacket, IsNeverReadBeyondItsEnd) {
    for (const Path& path : all_paths()) {
        for (const std::uint8_t opcode : all_opcodes()) {
            const Bytes frame = frame_of(path, headers_of(opcode), {});
            for (std::size_t size = 0; size < frame.size(); ++size) {
                const auto end = frame.begin() + static_cast<std::ptrdiff_t>(size);
                EXPECT_EQ(drop_of({frame.begin(), end}), Drop::truncated) << size;
            }
        }
    }
}

// In a frame over IPv6, checks or the ICRC cover all bits but these: the link's header, fields that
// routers change, and a UDP checksum.
TEST(HostilePacket, WithAnyBitFlippedIsDropped) {
    const Path path = ipv6_path();
    const Bytes frame = frame_of(path, headers_of(VRDMA_ROCE_RC_WRITE_ONLY), payload_of(6));
    const auto is_free = [](std::size_t byte, unsigned bit) {
        const bool macs = byte < 12;
        const bool class_and_label =
            (byte == ip_at && bit < 4) || (byte > ip_at && byte < ip_at + 4);
        const bool hop_limit = byte == ip_at + 7;
        const bool checksum = byte == ipv6_udp_at + 6 || byte == ipv6_udp_at + 7;
        const bool congestion = byte == ipv6_bth_at + 4;
        return macs || class_and_label || hop_limit || checksum || congestion;
    };
    for (std::size_t byte = 0; byte < frame.size(); ++byte) {
        for (unsigned bit = 0; bit < 8; ++bit) {
            Bytes flipped = frame;
            flipped[byte] ^= static_cast<std::byte>(1u << bit);
            EXPECT_EQ(drop_of(flipped) == Drop::none, is_free(byte, bit)) << byte << '.' << bit;
        }
    }
}

TEST(HostilePacket, IsNotOursIfItIsNotRoce) {
    EXPECT_EQ(with_byte(ipv4_path(), 12, 0x09), Drop::other);              // EtherType
    EXPECT_EQ(with_byte(tagged(ipv4_path()), 16, 0x09), Drop::other);      // behind the tag
    EXPECT_EQ(with_byte(ipv4_path(), ip_at + 9, 6), Drop::other);          // TCP
    EXPECT_EQ(with_byte(ipv6_path(), ip_at + 6, 44), Drop::other);         // a fragment's header
    EXPECT_EQ(with_byte(ipv4_path(), ipv4_udp_at + 3, 0xb8), Drop::other); // port 4792
    EXPECT_EQ(with_byte(ipv6_path(), ipv6_udp_at + 3, 0xb8), Drop::other);
}

TEST(HostilePacket, OverIpv4IsMalformed) {
    const Path path = ipv4_path();
    EXPECT_EQ(with_byte(path, ip_at, 0x46), Drop::malformed);     // options
    EXPECT_EQ(with_byte(path, ip_at, 0x44), Drop::malformed);     // too short a header
    EXPECT_EQ(with_byte(path, ip_at, 0x65), Drop::malformed);     // IP version 6
    EXPECT_EQ(with_byte(path, ip_at + 6, 0x20), Drop::malformed); // more fragments
    EXPECT_EQ(with_byte(path, ip_at + 6, 0x01), Drop::malformed); // a later fragment
    EXPECT_EQ(with_byte(path, ip_at + 7, 0x01), Drop::malformed);
    EXPECT_EQ(with_byte(path, ip_at + 6, 0x00), Drop::none); // may be fragmented, but is not
    EXPECT_EQ(with_byte(path, ip_at + 5, 0x07), Drop::none); // an identification
    Bytes frame = send_only(path);
    frame[ip_at + 10] ^= std::byte{1};
    EXPECT_EQ(drop_of(frame), Drop::malformed); // the checksum
}

TEST(HostilePacket, OverIpv4HasALengthThatIsWrong) {
    const Path path = ipv4_path();
    const unsigned size = 20 + 8 + 12 + 8 + 4;
    EXPECT_EQ(with_byte(path, ip_at + 3, size), Drop::none);
    EXPECT_EQ(with_byte(path, ip_at + 3, size + 1), Drop::malformed); // UDP says another length
    EXPECT_EQ(with_byte(path, ip_at + 3, 19), Drop::malformed);       // shorter than its header
    EXPECT_EQ(with_byte(path, ip_at + 3, 20), Drop::malformed);       // no room for UDP
    EXPECT_EQ(with_byte(path, ipv4_udp_at + 5, size - 20 - 4), Drop::malformed);
    Bytes frame = send_only(path);
    frame[ip_at + 3] = std::byte{size + 4};
    frame[ipv4_udp_at + 5] = std::byte{size - 20 + 4};
    EXPECT_EQ(drop_of(mended(frame, path)), Drop::truncated); // longer than the frame
    frame[ip_at + 3] = std::byte{20 + 8 + 12};
    frame[ipv4_udp_at + 5] = std::byte{8 + 12};
    EXPECT_EQ(drop_of(mended(frame, path)), Drop::malformed); // no room for an ICRC
}

TEST(HostilePacket, OverIpv6IsMalformed) {
    const Path path = ipv6_path();
    EXPECT_EQ(with_byte(path, ip_at, 0x46), Drop::malformed);           // version 4
    EXPECT_EQ(with_byte(path, ip_at + 5, 0), Drop::malformed);          // no length
    EXPECT_EQ(with_byte(path, ipv6_udp_at + 5, 0x21), Drop::malformed); // UDP says another length
    EXPECT_EQ(with_byte(path, ip_at + 5, 8 + 12 + 8 + 4 + 1), Drop::malformed);
}

// Otherwise a packet over IPv6 could seem to come from an IPv4 address.
TEST(HostilePacket, OverIpv6HasNoMappedAddresses) {
    const Gid mapped = ipv4(9);
    for (const std::size_t address : {ip_at + 8, ip_at + 24}) {
        Bytes frame = send_only(ipv6_path());
        store(frame, address, mapped);
        EXPECT_EQ(drop_of(mended(frame, ipv6_path())), Drop::malformed);
    }
}

TEST(HostilePacket, OfRoceV1IsMalformed) {
    const Path path = roce_v1_path();
    EXPECT_EQ(with_byte(path, ip_at, 0x46), Drop::malformed);   // version 4
    EXPECT_EQ(with_byte(path, ip_at + 6, 17), Drop::malformed); // UDP
    EXPECT_EQ(with_byte(path, ip_at + 5, 15), Drop::malformed); // no room for BTH and ICRC
    EXPECT_EQ(with_byte(path, ip_at + 5, 28), Drop::truncated); // longer than the frame
    EXPECT_EQ(with_byte(path, ip_at + 4, 0xff), Drop::truncated);
}

TEST(HostilePacket, HasAnUnknownOpcode) {
    const auto expect = [](Drop drop, unsigned opcode) {
        EXPECT_EQ(with_byte(ipv4_path(), ipv4_bth_at, opcode), drop) << opcode;
        EXPECT_EQ(with_byte(ipv6_path(), ipv6_bth_at, opcode), drop) << opcode;
        EXPECT_EQ(with_byte(roce_v1_path(), v1_bth_at, opcode), drop) << opcode;
    };
    // RD, an atomic write of UC and of UD, and manufacturers' own opcodes
    for (const unsigned opcode : {0x44u, 0x3du, 0x7du, 0x60u, 0x80u, 0xe4u, 0xffu}) {
        expect(Drop::malformed, opcode);
    }
    // Reliable services answer these: a reserved opcode, and FLUSH
    for (const unsigned opcode : {0x15u, 0x1cu, 0xbcu}) {
        expect(Drop::none, opcode);
    }
}

TEST(HostilePacket, HasAnUnknownTransportVersion) {
    for (unsigned version = 1; version < 16; ++version) {
        EXPECT_EQ(with_byte(ipv4_path(), ipv4_bth_at + 1, version), Drop::malformed);
    }
}

TEST(HostilePacket, IsTooShortForItsOpcode) {
    // An RDMA WRITE without the end of its RETH, an atomic, a datagram without DETH
    EXPECT_EQ(with_byte(roce_v1_path(), v1_bth_at, VRDMA_ROCE_RC_WRITE_ONLY, 12), Drop::truncated);
    EXPECT_EQ(with_byte(roce_v1_path(), v1_bth_at, VRDMA_ROCE_RC_FETCH_ADD, 24), Drop::truncated);
    EXPECT_EQ(with_byte(roce_v1_path(), v1_bth_at, VRDMA_ROCE_UD_SEND_ONLY, 4), Drop::truncated);
    EXPECT_EQ(with_byte(roce_v1_path(), v1_bth_at, VRDMA_ROCE_CNP, 12), Drop::truncated);
}

TEST(HostilePacket, HasMorePaddingThanPayload) {
    EXPECT_EQ(with_byte(ipv4_path(), ipv4_bth_at + 1, 0x30, 0), Drop::malformed);
    EXPECT_EQ(with_byte(ipv4_path(), ipv4_bth_at + 1, 0x30, 4), Drop::none); // 1 byte of payload
}

TEST(HostilePacket, IsNotPaddedToWords) {
    for (const std::size_t bytes : {1, 2, 3, 5}) {
        EXPECT_EQ(with_payload(VRDMA_ROCE_RC_SEND_ONLY, payload_of(bytes)), Drop::malformed);
    }
    EXPECT_EQ(with_payload(VRDMA_ROCE_RC_SEND_ONLY, payload_of(4)), Drop::none);
}

TEST(HostilePacket, HasAPayloadThatItsOpcodeMayNotHave) {
    for (const std::uint8_t opcode : all_opcodes()) {
        const bool may = shape_of(opcode).may_have_payload;
        EXPECT_EQ(with_payload(opcode, payload_of(8)), may ? Drop::none : Drop::malformed)
            << unsigned{opcode};
    }
    for (const std::uint8_t opcode :
         {VRDMA_ROCE_RC_READ_REQUEST, VRDMA_ROCE_RC_ACKNOWLEDGE, VRDMA_ROCE_RC_ATOMIC_ACKNOWLEDGE,
          VRDMA_ROCE_RC_COMPARE_SWAP, VRDMA_ROCE_XRC_FETCH_ADD, VRDMA_ROCE_CNP}) {
        EXPECT_FALSE(shape_of(opcode).may_have_payload) << unsigned{opcode};
    }
}

TEST(HostilePacket, LeavesNothingOfThePacketBefore) {
    Packet packet;
    const Bytes before = frame_of(tagged(ipv6_path()), headers_of(VRDMA_ROCE_UD_SEND_ONLY), {});
    ASSERT_EQ(parse(before, packet), Drop::none);
    ASSERT_EQ(parse(send_only(ipv4_path()), packet), Drop::none);
    EXPECT_FALSE(packet.path.vlan.has_value());
    EXPECT_EQ(packet.path.flow_label, 0u);
    EXPECT_EQ(packet.headers.qkey, 0u);
}

} // namespace
} // namespace vrdma::wire
