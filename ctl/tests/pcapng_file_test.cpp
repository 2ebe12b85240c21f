// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "ctl/pcapng_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace vrdma::ctl {
namespace {

// A block of that type, with a body of a multiple of four bytes.
std::string block(std::uint32_t type, const std::string& body) {
    const auto length = static_cast<std::uint32_t>(12 + body.size());
    const auto bytes = [](std::uint32_t value) {
        return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
    };
    return bytes(type) + bytes(length) + body + bytes(length);
}

class PcapngFileTest : public testing::Test {
  protected:
    PcapngFileTest() { std::filesystem::create_directory(directory); }
    PcapngFileTest(const PcapngFileTest&) = delete;
    PcapngFileTest& operator=(const PcapngFileTest&) = delete;
    ~PcapngFileTest() override { std::filesystem::remove_all(directory); }

    std::string content() const {
        std::ostringstream text;
        text << std::ifstream{path}.rdbuf();
        return text.str();
    }

    const std::filesystem::path directory =
        std::filesystem::path{testing::TempDir()} / ("pcapng-" + std::to_string(::getpid()));
    const std::string path = directory / "file";
    const std::string header = block(0x0a0d0d0a, "12345678");
    const std::string frame = block(6, "a frame ");
};

// Add two blocks byte by byte, and a part of a third one; expect whole blocks in the file.
TEST_F(PcapngFileTest, HasWholeBlocksOnly) {
    PcapngFile file{path};
    EXPECT_FALSE(std::filesystem::exists(path)) << "nothing has come yet";
    for (const char byte : header + frame + frame.substr(0, 9)) {
        ASSERT_TRUE(file.add({&byte, 1}));
    }
    EXPECT_EQ(content(), header + frame);
    EXPECT_EQ(file.frames(), 1u);
    EXPECT_EQ(file.dropped(), 0u);
}

TEST_F(PcapngFileTest, CountsWhatTheStatisticsSay) {
    std::string statistics(12, '\0');
    statistics += std::string("\x01\0\x05\0abcde\0\0\0", 12); // a comment
    statistics += std::string("\x05\0\x08\0\x07\0\0\0\0\0\0\0", 12);
    PcapngFile file{path};
    EXPECT_TRUE(file.add(header + block(5, statistics) + block(5, std::string(12, '\0'))));
    EXPECT_EQ(file.dropped(), 7u);
}

TEST_F(PcapngFileTest, ReplacesNoFile) {
    std::ofstream{path} << "mine";
    PcapngFile file{path};
    EXPECT_FALSE(file.add(header));
    EXPECT_EQ(file.problem(), path + ": File exists");
    EXPECT_EQ(content(), "mine");
}

TEST_F(PcapngFileTest, IsOnlyItsOwners) {
    PcapngFile file{path};
    ASSERT_TRUE(file.add(header));
    struct stat status {};
    ASSERT_EQ(::stat(path.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST_F(PcapngFileTest, RefusesWhatIsNoPcapng) {
    for (const std::string& wrong : {block(6, ""), std::string("HTTP/1.1 200 OK\r\n")}) {
        std::string bytes = wrong;
        if (wrong.size() == 12) {
            bytes[4] = 11; // shorter than any block
        }
        PcapngFile file{path};
        EXPECT_FALSE(file.add(bytes));
        EXPECT_EQ(file.problem(), "the answer is no pcapng");
        std::filesystem::remove(path);
    }
}

} // namespace
} // namespace vrdma::ctl
