// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>

#include "mediator/wire/fabric/key.h"

namespace vrdma::wire::fabric {
namespace {

class KeyFile : public testing::Test {
  protected:
    KeyFile() { ::close(::mkstemp(path.data())); }
    void TearDown() override { ::unlink(path.c_str()); }

    tl::expected<Key, std::string> load(std::size_t bytes, mode_t mode) const {
        std::ofstream{path} << std::string(bytes, 'k');
        ::chmod(path.c_str(), mode);
        return Key::load(path);
    }

    std::string path = testing::TempDir() + "vrdma-key-XXXXXX";
};

TEST_F(KeyFile, OfTheRightSizeAndNobodyElses) {
    EXPECT_TRUE(load(32, 0600));
    EXPECT_TRUE(load(4096, 0400));
    for (const mode_t mode : {0640, 0604, 0620, 0601}) {
        EXPECT_EQ(load(32, mode).error(), path + ": others than its owner may use it");
    }
    for (const std::size_t size : {0, 31, 4097}) {
        EXPECT_EQ(load(size, 0600).error(), path + ": has to have 32 to 4096 bytes");
    }
    EXPECT_FALSE(Key::load("/nonexistent"));
    EXPECT_EQ(Key::load("/").error(), "/: is no file");
}

TEST_F(KeyFile, ProvesWhatItWasAskedFor) {
    const Key key = *load(32, 0600);
    const Key other{std::vector<std::uint8_t>(32, 'x')};
    vrdma_fabric_transcript transcript{};
    const Proof proof = key.prove(transcript);
    EXPECT_TRUE(key.proves(transcript, proof));
    EXPECT_FALSE(other.proves(transcript, proof));
    transcript.nonce[31] = 1;
    EXPECT_FALSE(key.proves(transcript, proof));
}

// As OpenSSL's command has it:
// head -c 208 /dev/zero | openssl dgst -sha256 -mac HMAC -macopt hexkey:6b…(32 bytes of 'k')
TEST_F(KeyFile, ProofsAreHmacSha256) {
    const Key key = *load(32, 0600);
    constexpr std::array<std::uint8_t, 4> begins{0xd4, 0x65, 0x1c, 0xdd};
    const Proof proof = key.prove({});
    EXPECT_TRUE(std::equal(begins.begin(), begins.end(), proof.begin()));
}

} // namespace
} // namespace vrdma::wire::fabric
