// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The actions of two sides between two comparisons: one side sends over a connection, and the other
// has receives. Only one side sends at a time. Otherwise chance would decide which messages a
// failure affects.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "torture/connection.h"
#include "torture/request.h"

namespace vrdma::torture {

// The key by which a message names its target.
enum class Key {
    region,
    window,
    none,           // of no region
    without_rights, // of a region to which only its owner has access
    stale,          // of a deregistered region
};

enum class Flaw {
    none,
    lkey,
    end,       // past that of the region
    alignment, // of an atomic
    qkey,      // of a datagram
};

struct Message : Request {
    unsigned target = 0;    // its slot; atomics share some
    bool forwarded = false; // sends the bytes that the message before it has fetched
    Key key = Key::region;
    Flaw flaw = Flaw::none;
};

struct Reception {
    std::uint32_t length = 0;
    bool bad_lkey = false;
};

// The state of a connection's sides after a scene. Both sides know it of both.
struct Standing {
    bool there = false;
    bool broken = false; // one of them is not ready to send
    Shape shape;
    std::array<std::uint32_t, 2> receives{}; // that are posted, by side
};

struct Scene {
    static constexpr std::size_t pairs = 4;
    static constexpr std::uint32_t most_receives = 8; // of a connection's side
    static constexpr std::uint32_t most_messages = 12;
    static constexpr unsigned shared_targets = 3; // of atomics

    std::size_t pair = 0;
    unsigned sender = 0; // the side
    bool renews = false; // the connection, with this shape
    Shape shape;
    bool registers = false;      // the receiver registers its memory again
    bool window = false;         // the receiver binds one of type 2
    bool fails_first = false;    // the sender takes its QP to the error state, and then sends
    bool drains = false;         // messages are posted in SQD
    std::array<bool, 2> fails{}; // by side, the QP in the end
    std::uint32_t limit = 0;     // of the shared receive queue
    std::uint32_t late = 0;      // number of receives that are posted when messages are under way
    std::uint64_t words = 0;     // initial content of the targets of atomics
    std::vector<Message> messages;
    std::vector<Reception> receptions;

    static Scene drawn(Random& script, const std::array<Standing, pairs>& standings);
    std::size_t posts() const { return messages.size() + receptions.size(); }
    std::size_t receptions_wanted() const {
        return static_cast<std::size_t>(std::ranges::count_if(
            messages, [](const Message& message) { return message.takes_receive(); }));
    }
};

} // namespace vrdma::torture
