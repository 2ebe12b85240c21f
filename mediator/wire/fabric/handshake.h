// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// One side of the handshake by which two mediators verify each other: TLS 1.3, and their names
// inside of it, see vrdma/fabric.h. It knows no network.
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
    // In `asks`, the peer has connected to us, and admit() is to be called.
    enum class State : std::uint8_t { open, asks, done, refused };

    static constexpr std::size_t most = 64 << 10; // bytes that the other side may send

    static Handshake connect(const Credentials& credentials, std::string self, std::string peer);
    static Handshake accept(const Credentials& credentials, std::string self);

    // Returns the first bytes to send, for the side that connects.
    std::vector<std::byte> begin() { return receive({}); }
    // Takes bytes that have come; returns the bytes to send, which may be none.
    std::vector<std::byte> receive(std::span<const std::byte> bytes);
    // Answers a handshake in `asks`; returns the bytes to send.
    std::vector<std::byte> admit(bool admitted);

    State state() const { return state_; }
    // The name that was given, or that a stranger claims: empty until that is known.
    const std::string& peer() const { return peer_; }
    // The reason of a refused handshake, for people.
    const std::string& why() const { return why_; }
    // The secrets of a handshake that is done, for all that follows.
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
    std::vector<std::uint8_t> hello_; // of the other side, as far as it has come
};

} // namespace vrdma::wire::fabric
