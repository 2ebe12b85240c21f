// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// How two mediators make sure of each other, one side of it: see vrdma/fabric.h. It knows no
// network.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mediator/wire/fabric/key.h"

namespace vrdma::wire::fabric {

class Handshake {
  public:
    enum class State : std::uint8_t { open, done, refused };

    // The key that is shared with whoever has that name; nullptr: who may not connect.
    using FindKey = std::function<const Key*(const std::string& name)>;

    static Handshake connect(const std::string& self, std::string peer, const Key& key);
    static Handshake accept(const std::string& self, FindKey find_key);

    // What is to be sent first, by the side that connects.
    std::vector<std::byte> hello() const;
    // Of what has come; returns what is to be sent, which may be nothing.
    std::vector<std::byte> receive(std::span<const std::byte> frame);

    State state() const { return state_; }
    // As it has been given, or as a stranger calls itself: empty if that is no name.
    const std::string& peer() const { return peer_; }
    // Of one that is refused, for people.
    const std::string& why() const { return why_; }

  private:
    Handshake(std::string self, std::string peer)
        : self_{std::move(self)}, peer_{std::move(peer)} {}

    std::vector<std::byte> receive_hello(std::span<const std::byte> frame);
    std::vector<std::byte> receive_answer(std::span<const std::byte> frame);
    std::vector<std::byte> receive_proof(std::span<const std::byte> frame);
    std::vector<std::byte> refuse(std::string why);
    vrdma_fabric_transcript transcript(vrdma_fabric_role prover) const;

    std::string self_;
    std::string peer_;
    FindKey find_key_; // of the side that accepts
    const Key* key_ = nullptr;
    State state_ = State::open;
    std::string why_;
    vrdma_fabric_hello hello_{};
    std::array<std::uint8_t, VRDMA_FABRIC_NONCE_SIZE> nonce_{}; // the answer's
};

// Of a mediator: so that it can be logged, and fits.
bool valid_host(std::string_view name);

} // namespace vrdma::wire::fabric
