// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// What two sides do before they look: one sends over a connection, and the other has receives. Only
// one sends at a time, as else chance would decide what a failure meets.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "torture/connection.h"

namespace vrdma::torture {

// What a message names its target with.
enum class Key {
    region,
    window,
    none,           // nobody has it
    without_rights, // of a region that may only be read by its owner
    stale,          // of a region that is gone
};

enum class Flaw {
    none,
    lkey,
    end,       // past that of the region
    alignment, // of an atomic
    qkey,      // of a datagram
};

struct Message {
    ibv_wr_opcode opcode = IBV_WR_SEND;
    std::uint32_t length = 0;
    std::uint32_t imm = 0;
    unsigned target = 0; // its slot; atomics share some
    bool inlined = false;
    bool signaled = false;
    bool solicited = false;
    bool fenced = false;
    bool matches = false;   // what a compare and swap compares with
    bool forwarded = false; // what the message before it has fetched is sent
    Key key = Key::region;
    Flaw flaw = Flaw::none;

    bool is_atomic() const {
        return opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
    }
    bool is_fetch() const { return opcode == IBV_WR_RDMA_READ || is_atomic(); }
    bool has_imm() const {
        return opcode == IBV_WR_SEND_WITH_IMM || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
    }
    bool is_send() const {
        return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM ||
               opcode == IBV_WR_SEND_WITH_INV;
    }
    bool takes_receive() const { return is_send() || has_imm(); }
    // Of the sender's own window.
    bool is_local() const { return opcode == IBV_WR_BIND_MW || opcode == IBV_WR_LOCAL_INV; }
};

struct Reception {
    std::uint32_t length = 0;
    bool bad_lkey = false;
};

// How a connection's sides stand after a scene; both know it of both.
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
    std::uint32_t late = 0;      // the last so many receives are posted when messages are under way
    std::uint64_t words = 0;     // which atomics find in their targets
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
