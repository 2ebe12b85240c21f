// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Frames that Linux's rxe sent, as captured by ci/capture-rxe. Each is read, and written again as
// it was. rxe knows RoCE v2 only.
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <string>

#include "mediator/wire/bytes.h"
#include "mediator/wire/encapsulation.h"
#include "mediator/wire/tests/frames.h"

namespace vrdma::wire {
namespace {

struct Line {
    std::string title; // of the program that made it
    std::string hex;
};

std::vector<Line> read_lines() {
    std::ifstream file{VRDMA_RXE_FRAMES};
    std::vector<Line> lines;
    std::string title;
    for (std::string line; std::getline(file, line);) {
        if (line.starts_with('#')) {
            title = line;
        } else if (!line.empty()) {
            lines.push_back({title, line.substr(0, line.find(' '))});
        }
    }
    return lines;
}

class RxeFrames : public testing::Test {
  protected:
    // Calls `check` with each frame and the packet in it.
    template <typename Check>
    void for_each(Check check) const {
        ASSERT_FALSE(lines_.empty());
        for (const Line& line : lines_) {
            SCOPED_TRACE(line.title + ": " + line.hex);
            const Bytes frame = from_hex(line.hex);
            Packet packet;
            ASSERT_EQ(parse(frame, packet), Drop::none);
            check(line.title, frame, packet);
        }
    }

  private:
    std::vector<Line> lines_ = read_lines();
};

TEST_F(RxeFrames, ComeFromWhereTheySay) {
    for_each([](const std::string& title, const Bytes&, const Packet& packet) {
        const bool is_ipv4 = title.find("IPv4") != std::string::npos;
        EXPECT_EQ(network_of(packet.path), is_ipv4 ? Network::ipv4 : Network::ipv6);
        EXPECT_NE(packet.path.source, packet.path.target);
        EXPECT_EQ(packet.path.source[15] + packet.path.target[15], 1 + 2); // the guests' numbers
        EXPECT_GE(packet.path.source_port, 0xc000);
        EXPECT_EQ(packet.headers.pkey, 0xffff);
        EXPECT_FALSE(packet.headers.migrated); // HCAs would set it
    });
}

// Each opcode that rxe has, over both versions of IP.
TEST_F(RxeFrames, HaveEveryOpcode) {
    std::set<std::uint8_t> seen[2];
    for_each([&](const std::string&, const Bytes&, const Packet& packet) {
        const bool is_ipv4 = network_of(packet.path) == Network::ipv4;
        seen[is_ipv4 ? 0 : 1].insert(packet.headers.opcode);
    });
    std::set<std::uint8_t> expected;
    for (const std::uint8_t opcode : all_opcodes()) {
        if (opcode < VRDMA_ROCE_CNP && opcode != VRDMA_ROCE_RC_ATOMIC_WRITE) {
            expected.insert(opcode);
        }
    }
    EXPECT_EQ(seen[0], expected);
    EXPECT_EQ(seen[1], expected);
}

// A17.3.1 leaves the identification of an IPv4 packet to its sender. rxe counts packets, and ours
// follows the PSN. So there the checksum and the ICRC, which cover it, differ.
TEST_F(RxeFrames, AreWrittenAsTheyWere) {
    for_each([](const std::string&, Bytes frame, const Packet& packet) {
        Bytes ours = frame_of(packet.path, packet.headers, packet.payload);
        ASSERT_EQ(ours.size(), frame.size());
        if (network_of(packet.path) == Network::ipv4) {
            for (Bytes* bytes : {&ours, &frame}) {
                const std::size_t ip_at = link_size(packet.path);
                store(*bytes, ip_at + offsetof(vrdma_ipv4, identification), std::uint16_t{0});
                store(*bytes, ip_at + offsetof(vrdma_ipv4, checksum), std::uint16_t{0});
                store(*bytes, bytes->size() - VRDMA_ROCE_ICRC_SIZE, std::uint32_t{0});
            }
        }
        EXPECT_EQ(ours, frame);
    });
}

TEST_F(RxeFrames, SayWhatWasPosted) {
    for_each([](const std::string& title, const Bytes&, const Packet& packet) {
        if (title.find("verbs") == std::string::npos) {
            return;
        }
        const Headers& headers = packet.headers;
        const std::uint16_t extended = shape_of(headers.opcode).extended;
        const std::size_t size = packet.payload.size();
        EXPECT_TRUE(size == 0 || size == 5 || size == 256 || size == 601 - 2 * 256) << size;
        if ((extended & ext_immdt) != 0) {
            const bool write = (headers.opcode & VRDMA_ROCE_OPERATION) > VRDMA_ROCE_WRITE_FIRST;
            // pyverbs leaves the order of the bytes to its caller, which ignored it.
            EXPECT_EQ(le32toh(headers.imm), write ? 0x05060708 : 0x01020304);
        }
        if ((extended & ext_deth) != 0) {
            EXPECT_EQ(headers.qkey, 0x11111111u);
        }
        if ((extended & ext_reth) != 0) {
            EXPECT_TRUE(headers.length == 5 || headers.length == 601);
        }
        if (headers.opcode == VRDMA_ROCE_RC_COMPARE_SWAP) {
            EXPECT_EQ(headers.compare, 3u);
            EXPECT_EQ(headers.swap_add, 4u);
        }
        if (headers.opcode == VRDMA_ROCE_RC_FETCH_ADD) {
            EXPECT_EQ(headers.swap_add, 3u);
        }
    });
}

// The negative acknowledgements: not ready, and each error that the capture provoked.
TEST_F(RxeFrames, HaveTheSyndromesOfErrors) {
    std::set<unsigned> seen;
    for_each([&](const std::string&, const Bytes&, const Packet& packet) {
        const std::uint32_t syndrome = packet.headers.syndrome;
        if (packet.headers.opcode == VRDMA_ROCE_RC_ACKNOWLEDGE) {
            seen.insert(VRDMA_GET(VRDMA_SYNDROME_TYPE, syndrome) << 5 |
                        (VRDMA_GET(VRDMA_SYNDROME_TYPE, syndrome) == VRDMA_SYNDROME_NAK
                             ? VRDMA_GET(VRDMA_SYNDROME_VALUE, syndrome)
                             : 0));
        }
    });
    constexpr unsigned nak = VRDMA_SYNDROME_NAK << 5;
    EXPECT_EQ(seen,
              (std::set<unsigned>{VRDMA_SYNDROME_ACK << 5, VRDMA_SYNDROME_RNR_NAK << 5,
                                  nak | VRDMA_NAK_PSN_SEQUENCE, nak | VRDMA_NAK_INVALID_REQUEST,
                                  nak | VRDMA_NAK_REMOTE_ACCESS}));
}

TEST_F(RxeFrames, WithAnotherLastByteAreDropped) {
    for_each([](const std::string&, Bytes frame, const Packet&) {
        frame.back() ^= std::byte{1};
        Packet packet;
        EXPECT_EQ(parse(frame, packet), Drop::icrc);
    });
}

} // namespace
} // namespace vrdma::wire
