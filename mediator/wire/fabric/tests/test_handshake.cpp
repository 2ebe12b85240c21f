// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include <gtest/gtest.h>

#include "mediator/wire/fabric/handshake.h"

namespace vrdma::wire::fabric {
namespace {

using Bytes = std::vector<std::byte>;
using State = Handshake::State;

class HandshakeTest : public testing::Test {
  protected:
    Handshake from(const std::string& name, const Key& key, const std::string& to = "beta") const {
        return Handshake::connect(name, to, key);
    }
    Handshake at_beta() const {
        return Handshake::accept(
            "beta", [this](const std::string& name) { return name == "alpha" ? &key : nullptr; });
    }
    static void expect_refused(const Handshake& handshake, const std::string& why) {
        EXPECT_EQ(handshake.state(), State::refused);
        EXPECT_EQ(handshake.why(), why);
    }

    const Key key{std::vector<std::uint8_t>(32, 1)};
    const Key other{std::vector<std::uint8_t>(32, 2)};
};

TEST_F(HandshakeTest, TwoThatShareAKey) {
    Handshake alpha = from("alpha", key);
    Handshake beta = at_beta();
    const Bytes answer = beta.receive(alpha.hello());
    EXPECT_EQ(beta.state(), State::open);
    const Bytes proof = alpha.receive(answer);
    EXPECT_EQ(alpha.state(), State::done);
    EXPECT_TRUE(beta.receive(proof).empty());
    EXPECT_EQ(beta.state(), State::done);
    EXPECT_EQ(beta.peer(), "alpha");
    EXPECT_EQ(alpha.peer(), "beta");
}

TEST_F(HandshakeTest, AnotherKey) {
    Handshake alpha = from("alpha", other);
    Handshake beta = at_beta();
    EXPECT_TRUE(alpha.receive(beta.receive(alpha.hello())).empty());
    expect_refused(alpha, "has another key");
}

// Whoever has no key and connects nevertheless cannot prove anything.
TEST_F(HandshakeTest, AProofByAnotherKey) {
    Handshake alpha = from("alpha", key);
    Handshake beta = at_beta();
    Bytes proof = alpha.receive(beta.receive(alpha.hello()));
    proof[31] ^= std::byte{1};
    beta.receive(proof);
    expect_refused(beta, "has another key");
}

// What was heard of an earlier connection is worth nothing: both sides' nonces are new.
TEST_F(HandshakeTest, AReplay) {
    Handshake alpha = from("alpha", key);
    Handshake first = at_beta();
    const Bytes hello = alpha.hello();
    const Bytes answer = first.receive(hello);
    const Bytes proof = alpha.receive(answer);

    Handshake beta = at_beta();
    beta.receive(hello);
    beta.receive(proof);
    expect_refused(beta, "has another key");

    Handshake again = from("alpha", key);
    again.receive(answer);
    expect_refused(again, "has another key");
}

// An answer proves nothing of who connects.
TEST_F(HandshakeTest, AReflection) {
    Handshake beta = at_beta();
    const Bytes answer = beta.receive(from("alpha", key).hello());
    beta.receive(Bytes{answer.end() - VRDMA_FABRIC_PROOF_SIZE, answer.end()});
    expect_refused(beta, "has another key");
}

TEST_F(HandshakeTest, AStrangeName) {
    Handshake beta = at_beta();
    EXPECT_TRUE(beta.receive(from("gamma", key).hello()).empty());
    expect_refused(beta, "is not known as one that connects to us");
    EXPECT_EQ(beta.peer(), "gamma");
}

TEST_F(HandshakeTest, ANameThatIsNone) {
    for (const std::string name : {"", "line\nbreak", "\x1b[31m"}) {
        Handshake beta = at_beta();
        EXPECT_TRUE(beta.receive(from(name, key).hello()).empty());
        expect_refused(beta, "is not known as one that connects to us");
        EXPECT_EQ(beta.peer(), "");
    }
}

TEST_F(HandshakeTest, OneThatLooksForSomebodyElse) {
    Handshake beta = at_beta();
    EXPECT_TRUE(beta.receive(from("alpha", key, "gamma").hello()).empty());
    expect_refused(beta, "looks for somebody else");
}

TEST_F(HandshakeTest, OtherLanguages) {
    Bytes version = from("alpha", key).hello();
    version[7] ^= std::byte{2};
    Bytes magic = from("alpha", key).hello();
    magic[0] = {};
    for (const Bytes& frame : {Bytes(14), Bytes(4000), version, magic}) {
        Handshake beta = at_beta();
        EXPECT_TRUE(beta.receive(frame).empty());
        expect_refused(beta, "speaks another language");
        Handshake alpha = from("alpha", key);
        alpha.receive(frame);
        expect_refused(alpha, "speaks another language");
    }
    Handshake beta = at_beta();
    beta.receive(from("alpha", key).hello());
    beta.receive(Bytes(31));
    expect_refused(beta, "speaks another language");
}

TEST_F(HandshakeTest, NothingCountsAfterItsEnd) {
    Handshake beta = at_beta();
    beta.receive(Bytes(20));
    EXPECT_TRUE(beta.receive(from("alpha", key).hello()).empty());
    EXPECT_EQ(beta.state(), State::refused);
}

TEST(ValidHost, Names) {
    EXPECT_TRUE(valid_host("host-1.example.net"));
    EXPECT_TRUE(valid_host(std::string(63, 'a')));
    for (const std::string& name : {std::string{}, std::string(64, 'a'), std::string{"a b"}}) {
        EXPECT_FALSE(valid_host(name));
    }
}

} // namespace
} // namespace vrdma::wire::fabric
