// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/wire/icrc.h"

#include <gtest/gtest.h>

#include "mediator/wire/tests/frames.h"

namespace vrdma::wire {
namespace {

// IBA 7.8.1 bit by bit: the polynomial 0x04c11db7 with the coefficients in the order of the wire.
class Crc {
  public:
    Crc& add(std::byte byte) {
        rest_ ^= std::to_integer<std::uint32_t>(byte);
        for (int bit = 0; bit < 8; ++bit) {
            rest_ = (rest_ & 1) != 0 ? rest_ >> 1 ^ 0xedb88320 : rest_ >> 1;
        }
        return *this;
    }
    Crc& add(const Bytes& bytes) {
        for (const std::byte byte : bytes) {
            add(byte);
        }
        return *this;
    }
    std::uint32_t value() const { return ~rest_; }

  private:
    std::uint32_t rest_ = 0xffffffff;
};

// The bytes from the network header to the padding.
Bytes covered(const Bytes& frame, const Path& path) {
    return {frame.begin() + static_cast<std::ptrdiff_t>(link_size(path)), frame.end() - 4};
}

void set_ones(Bytes& bytes, std::initializer_list<std::size_t> places) {
    for (const std::size_t place : places) {
        bytes.at(place) = std::byte{0xff};
    }
}

const Bytes masked_lrh(8, std::byte{0xff});

// A16.4.3: as with InfiniBand's GRH. The LRH, the traffic class, flow label, hop limit and the byte
// before the QPN count as ones.
TEST(Icrc, OfRoceV1CoversTheGrhWithoutWhatRoutersChange) {
    const Path path = roce_v1_path();
    const Bytes frame = frame_of(path, headers_of(VRDMA_ROCE_RC_WRITE_ONLY), payload_of(37));
    Bytes bytes = covered(frame, path);
    const std::uint32_t computed = icrc(Network::grh, bytes);
    bytes[0] = std::byte{0x6f};
    set_ones(bytes, {1, 2, 3, 7, 44});
    EXPECT_EQ(computed, Crc{}.add(masked_lrh).add(bytes).value());
}

// A17.3.3: type of service, TTL and checksum count as ones in IPv4, the checksum in UDP.
TEST(Icrc, OfRoceV2CoversIpv4WithoutWhatRoutersChange) {
    const Path path = ipv4_path();
    const Bytes frame = frame_of(path, headers_of(VRDMA_ROCE_UD_SEND_ONLY), payload_of(38));
    Bytes bytes = covered(frame, path);
    const std::uint32_t computed = icrc(Network::ipv4, bytes);
    set_ones(bytes, {1, 8, 10, 11, 26, 27, 32});
    EXPECT_EQ(computed, Crc{}.add(masked_lrh).add(bytes).value());
}

TEST(Icrc, OfRoceV2CoversIpv6WithoutWhatRoutersChange) {
    const Path path = ipv6_path();
    const Bytes frame = frame_of(path, headers_of(VRDMA_ROCE_RC_ACKNOWLEDGE), {});
    Bytes bytes = covered(frame, path);
    const std::uint32_t computed = icrc(Network::ipv6, bytes);
    bytes[0] = std::byte{0x6f};
    set_ones(bytes, {1, 2, 3, 7, 46, 47, 52});
    EXPECT_EQ(computed, Crc{}.add(masked_lrh).add(bytes).value());
}

// A CNP that a ConnectX-4 Lx sent, from the tests of scapy (contrib/roce). Its UDP source port of 0
// also shows that the source port means nothing.
TEST(Icrc, IsThatOfAnHca) {
    const Bytes frame = from_hex(
        "e41d2dab2bc2 7cfe90643b32 0800"
        "45c2003c718c400040119161 0a001101 0a001201 000012b700280000"
        "8100ffff4000011800000000 00000000000000000000000000000000 82fd002a");
    Packet packet;
    ASSERT_EQ(parse(frame, packet), Drop::none);
    EXPECT_EQ(packet.headers.opcode, VRDMA_ROCE_CNP);
    EXPECT_TRUE(packet.headers.becn);
    EXPECT_EQ(packet.headers.target_qpn, 0x118u);
    EXPECT_EQ(packet.path.source_port, 0);
    EXPECT_EQ(packet.path.traffic_class, 0xc2);
    EXPECT_TRUE(packet.payload.empty());
}

} // namespace
} // namespace vrdma::wire
