// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A conversation of two threads, one on each side, by their devices. Both draw each step from the
// same `script`, so each knows what the other does. Decisions that concern only one side are drawn
// from `own`.
#pragma once

#include <memory>
#include <vector>

#include "torture/connection.h"

namespace vrdma::torture {

struct Counts {
    std::uint64_t messages = 0;
    std::uint64_t bytes = 0;
};

struct Conversation {
    Conversation(const Device& device, ControlConnection control, unsigned side, bool lossy);

    void meet() { control.meet(script.state()); }
    // Posts to the connection's own queue, or to the shared one. Returns the slot in the arena.
    unsigned post_receive(const Connection& connection, std::uint32_t length);
    void free_receive(std::uint64_t id) { free_receives.push_back(static_cast<unsigned>(id)); }
    // Receives may be posted, and messages may arrive, meanwhile.
    void resize_srqs();
    Connection* find(std::uint32_t qpn) const;
    Parts parts() const;
    void exchange_addresses() { peer = control.exchange(arena.address()); }
    // A number for an object of this step that both sides name in the same way.
    std::uint64_t key(std::uint64_t first, std::uint64_t second) const;

    const Device& device;
    ControlConnection control;
    const unsigned side; // 0 or 1
    const bool lossy;    // Round::lossy
    Random script;
    Random own;
    Arena arena;
    Arena::Address peer{};
    Completions completions;
    Srq srq;
    Xrcd xrcd;
    Srq xrc_srq;
    std::vector<unsigned> free_receives;
    std::vector<std::unique_ptr<Connection>> connections;
    Counts counts;
};

// The steps, each in a file of its own.
void burst(Conversation& conversation);   // messages over some connections, all verified
void provoke(Conversation& conversation); // an error, and then a reset
void storm(Conversation& conversation);   // objects come and go; no messages
// The script's victim is killed while its peer writes to it.
void kill_one(Conversation& conversation, unsigned victim);

// Plays so many steps; `victim`, if it is a side, dies in the last.
constexpr unsigned nobody = 2;
void converse(Conversation& conversation, unsigned steps, unsigned victim);

} // namespace vrdma::torture
