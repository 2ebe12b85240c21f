// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// How two mediators make sure of each other, one side of it: TLS 1.3, and their names inside of it,
// see vrdma/fabric.h. It knows no network.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mediator/wire/fabric/credentials.h"
#include "mediator/wire/fabric/hello.h"
#include "mediator/wire/fabric/secrets.h"

struct ssl_st;            // OpenSSL's SSL
struct x509_store_ctx_st; // OpenSSL's X509_STORE_CTX

namespace vrdma::wire::fabric {

class Handshake {
  public:
    // Asks whether its peer, who connects to us, is admitted.
    enum class State : std::uint8_t { open, asks, done, refused };

    static constexpr std::size_t most = 64 << 10; // bytes that the other side may say

    static Handshake connect(const Credentials& credentials, std::string self, std::string peer);
    static Handshake accept(const Credentials& credentials, std::string self);

    // What is to be sent first, by the side that connects.
    std::vector<std::byte> begin() { return receive({}); }
    // Of what has come; returns what is to be sent, which may be nothing.
    std::vector<std::byte> receive(std::span<const std::byte> bytes);
    // Answers one that asks; returns what is to be sent.
    std::vector<std::byte> admit(bool admitted);

    State state() const { return state_; }
    // As it has been given, or as a stranger calls itself: empty until that is known.
    const std::string& peer() const { return peer_; }
    // Of one that is refused, for people.
    const std::string& why() const { return why_; }
    // Of one that is done, for all that follows.
    std::optional<Secrets> secrets() const;

  private:
    struct FreeTls {
        void operator()(ssl_st* tls) const noexcept;
    };

    Handshake(const Credentials& credentials, std::string self, std::string peer, bool connects);

    bool proceed();
    void hear_hello();
    void judge(const Hello& hello);
    void say_hello();
    std::vector<std::byte> take_said();
    void refuse(std::string why);
    void refuse_for(int result);
    static int verify(int good, x509_store_ctx_st* chain);

    std::unique_ptr<ssl_st, FreeTls> tls_;
    std::string self_;
    std::string peer_;
    bool connects_;
    State state_ = State::open;
    std::string why_;
    std::size_t heard_ = 0;
    std::vector<std::uint8_t> hello_; // of the other side, as much as has come
};

} // namespace vrdma::wire::fabric
