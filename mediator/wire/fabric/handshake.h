// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// How two mediators make sure of each other, one side of it: TLS 1.3, and their names inside of it,
// see vrdma/fabric.h. It knows no network.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "mediator/wire/fabric/credentials.h"
#include "mediator/wire/fabric/hello.h"
#include "mediator/wire/fabric/seal.h"

struct ssl_st;            // OpenSSL's SSL
struct x509_store_ctx_st; // OpenSSL's X509_STORE_CTX

namespace vrdma::wire::fabric {

class Handshake {
  public:
    enum class State : std::uint8_t { open, done, refused };

    static constexpr std::size_t most = 64 << 10; // bytes that the other side may say

    // Whether somebody of that name may connect.
    using Admits = std::function<bool(const std::string& name)>;

    static Handshake connect(const Credentials& credentials, std::string self, std::string peer);
    static Handshake accept(const Credentials& credentials, std::string self, Admits admits);

    // What is to be sent first, by the side that connects.
    std::vector<std::byte> begin() { return receive({}); }
    // Of what has come; returns what is to be sent, which may be nothing.
    std::vector<std::byte> receive(std::span<const std::byte> bytes);

    State state() const { return state_; }
    // As it has been given, or as a stranger calls itself: empty until that is known.
    const std::string& peer() const { return peer_; }
    // Of one that is refused, for people.
    const std::string& why() const { return why_; }
    // Of one that is done, for all that follows.
    Result<Seals> seals() const;

  private:
    struct FreeTls {
        void operator()(ssl_st* tls) const noexcept;
    };

    Handshake(const Credentials& credentials, std::string self, std::string peer, Admits admits);

    bool connects() const { return !admits_; }
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
    Admits admits_; // of the side that accepts
    State state_ = State::open;
    std::string why_;
    std::size_t heard_ = 0;
    std::vector<std::uint8_t> hello_; // of the other side, as much as has come
};

} // namespace vrdma::wire::fabric
