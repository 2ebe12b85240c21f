// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/wire/fabric/seal.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace vrdma::wire::fabric {
namespace {

using Bytes = std::vector<std::byte>;

constexpr std::size_t tag_size = VRDMA_FABRIC_TAG_SIZE;

vrdma_fabric_secret secret_of(std::uint8_t key, std::uint8_t nonce = 7) {
    vrdma_fabric_secret secret{};
    std::ranges::fill(secret.key, key);
    std::ranges::fill(secret.nonce, nonce);
    return secret;
}

class SealTest : public testing::Test {
  protected:
    Bytes sealed(std::size_t size, int fill = 1) {
        Bytes message(size + tag_size, static_cast<std::byte>(fill));
        EXPECT_TRUE(sealer.seal(message));
        return message;
    }
    // Returns the content, if the message is good.
    std::optional<Bytes> open(Bytes message) {
        const auto opened = opener.open(message);
        return opened ? std::optional{Bytes{opened->begin(), opened->end()}} : std::nullopt;
    }

    // Expects this ciphertext for "zzzz" as the next message, which must be readable.
    void expect_ciphertext(const std::array<std::uint8_t, 4>& expected) {
        const Bytes message = sealed(4, 'z');
        EXPECT_TRUE(std::ranges::equal(
            std::span{message}.first(4), expected,
            [](std::byte a, std::uint8_t b) { return a == static_cast<std::byte>(b); }));
        EXPECT_TRUE(open(message));
    }

    Sealer sealer = *Sealer::create(secret_of(1));
    Opener opener = *Opener::create(secret_of(1));
};

TEST_F(SealTest, MessagesComeAsTheyWere) {
    for (const std::size_t size : {0, 1, 15, 16, 17, 4096, VRDMA_FABRIC_MESSAGE_SIZE - 16}) {
        EXPECT_EQ(open(sealed(size)), Bytes(size, std::byte{1}));
    }
}

TEST_F(SealTest, NobodyReadsThem) {
    const Bytes message = sealed(4096);
    EXPECT_EQ(std::search_n(message.begin(), message.end(), 4, std::byte{1}), message.end());
    EXPECT_NE(sealed(4096), message) << "the same again looks different";
}

TEST_F(SealTest, AFlippedBit) {
    for (const std::size_t byte : {0, 50, 99, 100, 115}) { // of the message and of its tag
        Sealer writes = *Sealer::create(secret_of(2));
        Opener reads = *Opener::create(secret_of(2));
        Bytes message(100 + tag_size);
        ASSERT_TRUE(writes.seal(message));
        message[byte] ^= std::byte{1};
        EXPECT_FALSE(reads.open(message)) << byte;
    }
}

TEST_F(SealTest, AMessageThatIsCutOff) {
    for (const std::size_t size : {0, 1, 15, 16, 99, 115}) {
        Sealer writes = *Sealer::create(secret_of(2));
        Opener reads = *Opener::create(secret_of(2));
        Bytes message(100 + tag_size);
        ASSERT_TRUE(writes.seal(message));
        message.resize(size);
        EXPECT_FALSE(reads.open(message)) << size;
    }
}

TEST_F(SealTest, AMessageThatComesAgain) {
    const Bytes message = sealed(100);
    EXPECT_TRUE(open(message));
    EXPECT_FALSE(open(message));
}

TEST_F(SealTest, AMessageThatIsLeftOut) {
    sealed(100);
    EXPECT_FALSE(open(sealed(100)));
}

TEST_F(SealTest, MessagesInAnotherOrder) {
    const Bytes first = sealed(100);
    EXPECT_FALSE(open(sealed(100)));
    EXPECT_FALSE(open(first));
}

TEST_F(SealTest, AnotherKeyOrNonce) {
    for (const auto& secret : {secret_of(2), secret_of(1, 8)}) {
        Opener other = *Opener::create(secret);
        Sealer writes = *Sealer::create(secret_of(1));
        Bytes message(100 + tag_size);
        ASSERT_TRUE(writes.seal(message));
        EXPECT_FALSE(other.open(message));
    }
}

// Computed by openssl(1). In it, GCM is the counter mode that starts at 2:
// printf zzzz | openssl enc -aes-256-ctr -K 01...01 -iv 07070707070707070707070700000002
TEST_F(SealTest, ItIsAes256Gcm) {
    expect_ciphertext({0xf7, 0x89, 0x90, 0xde});
}

// The key that replaces the first one: head -c 32 /dev/zero |
// openssl enc -aes-256-ctr -K 01...01 -iv 07070707f8f8f8f8f8f8f8f800000002. The message is
// computed as before, with this key and -iv 07070707070707070717070700000002.
TEST_F(SealTest, KeysAreReplaced) {
    Bytes message(tag_size);
    for (int i = 0; i < VRDMA_FABRIC_MESSAGES_PER_KEY; ++i) {
        ASSERT_TRUE(sealer.seal(message));
        ASSERT_TRUE(opener.open(message)) << i;
    }
    expect_ciphertext({0x28, 0x39, 0xef, 0x8f});
    EXPECT_TRUE(open(sealed(100)));
}

} // namespace
} // namespace vrdma::wire::fabric
