// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Blocks as the draft describes them. pytests/test_sniffer.py has tshark read whole files.
#include "mediator/sniffer/pcapng.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

namespace vrdma::sniffer {
namespace {

std::uint32_t word(std::string_view bytes, std::size_t at) {
    std::uint32_t value = 0;
    std::memcpy(&value, bytes.data() + at, sizeof(value));
    return value;
}

// Splits a file into its blocks. Each has its length at its beginning and at its end.
std::vector<std::string_view> blocks_of(std::string_view file) {
    std::vector<std::string_view> blocks;
    while (!file.empty()) {
        const std::size_t length = file.size() >= 12 ? word(file, 4) : 0;
        EXPECT_EQ(length % 4, 0u);
        if (length < 12 || length > file.size() || word(file, length - 4) != length) {
            ADD_FAILURE() << "no block";
            break;
        }
        blocks.push_back(file.substr(0, length));
        file.remove_prefix(length);
    }
    return blocks;
}

TEST(PcapngTest, AFileBeginsWithItsInterface) {
    std::string file;
    Pcapng{file}.begin("vrdmad 1.2", "disk-1/0");
    const auto blocks = blocks_of(file);
    ASSERT_EQ(blocks.size(), 2u);
    EXPECT_EQ(word(blocks[0], 0), 0x0a0d0d0au);
    EXPECT_EQ(word(blocks[0], 8), 0x1a2b3c4du);
    EXPECT_NE(blocks[0].find("vrdmad 1.2"), std::string_view::npos);
    EXPECT_EQ(word(blocks[1], 0), 1u);
    EXPECT_EQ(word(blocks[1], 8), 1u) << "Ethernet";
    EXPECT_EQ(word(blocks[1], 12), longest_frame);
    EXPECT_NE(blocks[1].find("disk-1/0"), std::string_view::npos);
}

TEST(PcapngTest, AFrameHasItsTimeItsLengthsAndItsDirection) {
    std::string file;
    const std::array<std::byte, 5> frame{std::byte{9}};
    Pcapng{file}.add(frame, 1'000'000, 0x1'0000'0002, Direction::sent);
    const auto blocks = blocks_of(file);
    ASSERT_EQ(blocks.size(), 1u);
    EXPECT_EQ(word(blocks[0], 0), 6u);
    EXPECT_EQ(word(blocks[0], 12), 1u);
    EXPECT_EQ(word(blocks[0], 16), 2u);
    EXPECT_EQ(word(blocks[0], 20), 5u);
    EXPECT_EQ(word(blocks[0], 24), 1'000'000u);
    EXPECT_EQ(blocks[0][28], 9);
    EXPECT_EQ(word(blocks[0], 36), 2u | 4u << 16) << "epb_flags, after padding";
    EXPECT_EQ(word(blocks[0], 40), 2u);
}

TEST(PcapngTest, StatisticsSayWhatIsMissing) {
    std::string file;
    Pcapng{file}.add_statistics(7, 40, 0);
    Pcapng{file}.add_statistics(7, 40, 2);
    const auto blocks = blocks_of(file);
    ASSERT_EQ(blocks.size(), 2u);
    EXPECT_EQ(blocks[0].find("missing"), std::string_view::npos);
    EXPECT_EQ(word(blocks[1], 0), 5u);
    EXPECT_NE(blocks[1].find("2 frames are missing"), std::string_view::npos);
}

} // namespace
} // namespace vrdma::sniffer
