// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/wire/fabric/handshake.h"

#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include "mediator/wire/fabric/seal.h"
#include "mediator/wire/fabric/tests/authority.h"

namespace vrdma::wire::fabric {
namespace {

using Bytes = std::vector<std::byte>;
using State = Handshake::State;

class HandshakeTest : public testing::Test {
  protected:
    Handshake from(const Credentials& credentials, const std::string& name,
                   const std::string& to = "beta") const {
        return Handshake::connect(credentials, name, to);
    }
    Handshake at(const Credentials& credentials) const {
        return Handshake::accept(credentials, "beta");
    }
    // Only alpha may connect.
    static Bytes hear(Handshake& server, const Bytes& bytes) {
        Bytes answer = server.receive(bytes);
        if (server.state() == State::asks) {
            const Bytes more = server.admit(server.peer() == "alpha");
            answer.insert(answer.end(), more.begin(), more.end());
        }
        return answer;
    }
    // Runs until both have nothing more to send.
    static void talk(Handshake& client, Handshake& server) {
        for (Bytes says = client.begin(); !says.empty();) {
            says = client.receive(hear(server, says));
        }
    }
    static void expect_refused(const Handshake& handshake, const std::string& why) {
        EXPECT_EQ(handshake.state(), State::refused);
        EXPECT_EQ(handshake.why(), why);
    }

    Authority authority;
    Authority stranger;
    const Credentials alpha_has = authority.credentials("alpha");
    const Credentials beta_has = authority.credentials("beta");
};

TEST_F(HandshakeTest, TwoOfTheSameAuthority) {
    Handshake alpha = from(alpha_has, "alpha");
    Handshake beta = at(beta_has);
    talk(alpha, beta);
    EXPECT_EQ(alpha.state(), State::done);
    EXPECT_EQ(beta.state(), State::done);
    EXPECT_EQ(beta.peer(), "alpha");
    EXPECT_EQ(alpha.peer(), "beta");
}

// In each direction, one side opens what the other seals, and a message of one direction cannot be
// opened in the other.
TEST_F(HandshakeTest, AKeyPerDirection) {
    Handshake alpha = from(alpha_has, "alpha");
    Handshake beta = at(beta_has);
    talk(alpha, beta);
    Seals a = *Seals::create(alpha.secrets()->get(), true);
    Seals b = *Seals::create(beta.secrets()->get(), false);
    const auto seal = [](Sealer& sealer) {
        Bytes message(100 + VRDMA_FABRIC_TAG_SIZE, std::byte{1});
        EXPECT_TRUE(sealer.seal(message));
        return message;
    };
    Bytes there = seal(a.out);
    Bytes back = seal(b.out);
    EXPECT_NE(there, back);
    EXPECT_TRUE(b.in.open(there));
    EXPECT_TRUE(a.in.open(back));
    Bytes reflected = seal(a.out);
    EXPECT_FALSE(a.in.open(reflected));
}

TEST_F(HandshakeTest, KeysOfTheirOwnForEachConnection) {
    Bytes first(100 + VRDMA_FABRIC_TAG_SIZE);
    Bytes second = first;
    for (Bytes* const message : {&first, &second}) {
        Handshake alpha = from(alpha_has, "alpha");
        Handshake beta = at(beta_has);
        talk(alpha, beta);
        ASSERT_TRUE(Seals::create(alpha.secrets()->get(), true)->out.seal(*message));
    }
    EXPECT_NE(first, second);
}

TEST_F(HandshakeTest, AServerOfAnotherAuthority) {
    const Credentials other = stranger.credentials("beta");
    Handshake alpha = from(alpha_has, "alpha");
    Handshake beta = at(other);
    talk(alpha, beta);
    expect_refused(alpha,
                   "has a certificate that is not good: unable to get local issuer certificate");
    expect_refused(beta, "refuses us: tlsv1 alert unknown ca");
}

// A client that trusts the right CA, and has a certificate of another.
TEST_F(HandshakeTest, AClientOfAnotherAuthority) {
    CredentialFiles files = stranger.issue("alpha", "DNS:alpha");
    files.ca = authority.path("ca");
    const Credentials other = *Credentials::load(files, "alpha");
    Handshake alpha = from(other, "alpha");
    Handshake beta = at(beta_has);
    talk(alpha, beta);
    expect_refused(beta,
                   "has a certificate that is not good: unable to get local issuer certificate");
    expect_refused(alpha, "refuses us: tlsv1 alert unknown ca");
}

TEST_F(HandshakeTest, AClientWithoutACertificate) {
    const std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> bare{::SSL_CTX_new(::TLS_client_method()),
                                                            &::SSL_CTX_free};
    SSL* const tls = ::SSL_new(bare.get());
    constexpr std::string_view protocols = "\x0e" VRDMA_FABRIC_PROTOCOL;
    ::SSL_set_alpn_protos(tls, reinterpret_cast<const unsigned char*>(protocols.data()),
                          protocols.size());
    ::SSL_set_bio(tls, ::BIO_new(::BIO_s_mem()), ::BIO_new(::BIO_s_mem()));
    Handshake beta = at(beta_has);
    for (int turn = 0; turn < 2; ++turn) {
        ::SSL_connect(tls);
        Bytes says(::BIO_ctrl_pending(::SSL_get_wbio(tls)));
        ::BIO_read(::SSL_get_wbio(tls), says.data(), static_cast<int>(says.size()));
        const Bytes answer = beta.receive(says);
        ::BIO_write(::SSL_get_rbio(tls), answer.data(), static_cast<int>(answer.size()));
    }
    ::SSL_free(tls);
    expect_refused(beta, "does not speak our protocol: peer did not return a certificate");
}

TEST_F(HandshakeTest, AServerOfAnotherName) {
    const Credentials other = authority.credentials("gamma");
    Handshake alpha = from(alpha_has, "alpha");
    Handshake gamma = at(other);
    talk(alpha, gamma);
    expect_refused(alpha, "has a certificate that is not good: hostname mismatch");
    EXPECT_EQ(gamma.state(), State::refused);
}

TEST_F(HandshakeTest, AClientOfAnotherName) {
    const Credentials other = authority.credentials("gamma");
    Handshake alpha = from(other, "alpha");
    Handshake beta = at(beta_has);
    talk(alpha, beta);
    expect_refused(beta, "has a certificate of another name");
    expect_refused(alpha, "refuses us");
}

TEST_F(HandshakeTest, CertificatesThatHaveExpired) {
    const Credentials expired_alpha = authority.credentials("alpha", -1);
    const Credentials expired_beta = authority.credentials("beta", -1);
    const std::string why = "has a certificate that is not good: certificate has expired";
    Handshake alpha = from(expired_alpha, "alpha");
    Handshake beta = at(beta_has);
    talk(alpha, beta);
    expect_refused(beta, why);
    EXPECT_EQ(alpha.state(), State::refused);

    Handshake again = from(alpha_has, "alpha");
    Handshake other = at(expired_beta);
    talk(again, other);
    expect_refused(again, why);
}

TEST_F(HandshakeTest, OneThatIsNotExpected) {
    const Credentials gamma_has = authority.credentials("gamma");
    Handshake gamma = from(gamma_has, "gamma");
    Handshake beta = at(beta_has);
    talk(gamma, beta);
    expect_refused(beta, "is not known as one that connects to us");
    EXPECT_EQ(beta.peer(), "gamma");
    expect_refused(gamma, "refuses us");
}

// If a certificate has several names, the client says which one it looks for.
TEST_F(HandshakeTest, OneThatLooksForSomebodyElse) {
    const Credentials both =
        *Credentials::load(authority.issue("both", "DNS:beta,DNS:delta"), "beta");
    Handshake alpha = from(alpha_has, "alpha", "delta");
    Handshake beta = at(both);
    talk(alpha, beta);
    expect_refused(beta, "looks for 'delta'");
    expect_refused(alpha, "refuses us");
}

// Messages of an earlier connection are refused, whichever side receives them again.
TEST_F(HandshakeTest, AReplay) {
    Handshake alpha = from(alpha_has, "alpha");
    Handshake first = at(beta_has);
    const Bytes hello = alpha.begin();
    const Bytes answer = first.receive(hello);
    const Bytes proof = alpha.receive(answer);
    ASSERT_FALSE(proof.empty());

    Handshake beta = at(beta_has);
    beta.receive(hello);
    beta.receive(proof);
    EXPECT_EQ(beta.state(), State::refused);

    Handshake again = from(alpha_has, "alpha");
    again.begin();
    again.receive(answer);
    EXPECT_EQ(again.state(), State::refused);
}

// Nobody accepts a message that was changed on the way.
TEST_F(HandshakeTest, AFlippedBit) {
    for (int turn = 0; turn < 4; ++turn) {
        for (const std::size_t part : {1, 2, 3}) {
            Handshake alpha = from(alpha_has, "alpha");
            Handshake beta = at(beta_has);
            Bytes says = alpha.begin();
            for (int now = 0; !says.empty(); ++now) {
                if (now == turn) {
                    says[says.size() * part / 4] ^= std::byte{1};
                }
                says = now % 2 == 0 ? hear(beta, says) : alpha.receive(says);
            }
            EXPECT_FALSE(alpha.state() == State::done && beta.state() == State::done)
                << turn << ' ' << part;
        }
    }
}

TEST_F(HandshakeTest, OtherLanguages) {
    for (const Bytes& bytes : {Bytes(14), Bytes(4000), Bytes(300, std::byte{0x16})}) {
        Handshake beta = at(beta_has);
        beta.receive(bytes);
        EXPECT_TRUE(beta.why().starts_with("does not speak our protocol")) << beta.why();
        Handshake alpha = from(alpha_has, "alpha");
        alpha.begin();
        alpha.receive(bytes);
        EXPECT_TRUE(alpha.why().starts_with("does not speak our protocol")) << alpha.why();
    }
}

// Bytes that look like the start of a very long record, and more of them.
TEST_F(HandshakeTest, OneThatNeverEnds) {
    Handshake beta = at(beta_has);
    const Bytes hello = from(alpha_has, "alpha").begin();
    beta.receive(std::span{hello}.first(100));
    EXPECT_EQ(beta.state(), State::open);
    beta.receive(Bytes(Handshake::most));
    expect_refused(beta, "sends too many bytes");
}

// Send more before it is known whether it is admitted; expect it not to be heard.
TEST_F(HandshakeTest, OneThatDoesNotWait) {
    Handshake alpha = from(alpha_has, "alpha");
    Handshake beta = at(beta_has);
    EXPECT_TRUE(beta.admit(true).empty()) << "nobody asks yet";
    beta.receive(alpha.receive(beta.receive(alpha.begin())));
    ASSERT_EQ(beta.state(), State::asks);
    EXPECT_EQ(beta.peer(), "alpha");
    EXPECT_TRUE(beta.receive(Bytes(100)).empty());
    EXPECT_EQ(beta.state(), State::asks);
    alpha.receive(beta.admit(true));
    EXPECT_EQ(alpha.state(), State::done);
    EXPECT_EQ(beta.state(), State::done);
    EXPECT_TRUE(beta.admit(false).empty());
    EXPECT_EQ(beta.state(), State::done);
}

TEST_F(HandshakeTest, NothingCountsAfterItsEnd) {
    Handshake beta = at(beta_has);
    beta.receive(Bytes(20));
    EXPECT_TRUE(beta.receive(from(alpha_has, "alpha").begin()).empty());
    EXPECT_EQ(beta.state(), State::refused);
}

TEST(Hello, NamesComeAsTheyWere) {
    const auto hello = unpack(pack({"alpha", std::string(63, 'b')}));
    ASSERT_TRUE(hello);
    EXPECT_EQ(hello->from, "alpha");
    EXPECT_EQ(hello->to, std::string(63, 'b'));
}

TEST(Hello, NamesThatAreNone) {
    for (const std::string name : {"", "line\nbreak", "\x1b[31m"}) {
        EXPECT_FALSE(unpack(pack({name, "beta"})));
        EXPECT_FALSE(unpack(pack({"alpha", name})));
    }
    vrdma_fabric_hello endless{};
    std::ranges::fill(endless.from, 'a');
    std::ranges::fill(endless.to, 'a');
    EXPECT_FALSE(unpack(endless));
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
