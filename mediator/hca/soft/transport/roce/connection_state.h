// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The saved state of a connection, which its peer on the network does not notice: the peer
// continues with the PSNs that it knows. In a stream, the arrays follow the struct. A newer format
// has another version; what is read is hostile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "mediator/base/result.h"
#include "mediator/hca/soft/slice/network.h"

namespace vrdma::hca::soft::roce {

// The header fields of a message on the network.
struct MessageState {
    std::uint64_t length = 0;
    std::uint64_t remote_address = 0;
    std::uint64_t compare_add = 0;
    std::uint64_t swap = 0;
    std::uint32_t imm = 0; // network order
    std::uint32_t rkey = 0;
    std::uint32_t srqn = 0;
    std::uint8_t opcode = 0; // enum vrdma_sq_opcode
    std::uint8_t solicited = 0;
    std::uint16_t reserved = 0;
};

// A WQE that the peer has not completely acknowledged.
struct SentState {
    std::uint64_t length = 0;
    std::uint32_t index = 0; // in the send queue
    std::uint32_t first = 0; // its PSNs
    std::uint32_t last = 0;
    std::uint8_t opcode = 0;
    std::uint8_t signaled = 0;
    std::uint8_t misaligned = 0; // its remote address is not aligned
    std::uint8_t reserved = 0;
};

// A READ or an atomic that the peer requested, and may request again.
struct FetchState {
    MessageState message;
    std::uint64_t original = 0; // of an atomic: the value before it
    std::uint32_t first = 0;    // the PSNs of the response
    std::uint32_t last = 0;
    std::uint32_t answered = 0; // response packets sent
    std::uint32_t begin = 0;    // the first of them that answers the latest request
    std::uint32_t repeated = 0; // 1: the peer repeated its request
    std::uint32_t reserved = 0;
};

// A connection to a peer on the network: its PSNs, and what is outstanding.
struct ConnectionState {
    std::uint32_t version = NetworkConnection::state_version;
    std::uint32_t reserved_2 = 0;
    MessageState message; // the incoming message
    std::uint64_t offset = 0;
    // PSNs of the requester: oldest not acknowledged, next to send, first never sent
    std::uint32_t snd_una = 0;
    std::uint32_t snd_nxt = 0;
    std::uint32_t snd_max = 0;
    std::uint32_t expected = 0; // PSN of the responder
    std::uint32_t msn = 0;
    std::uint8_t open = 0; // the message has begun
    std::uint8_t told_gap = 0;
    std::uint8_t ack_due = 0;
    std::uint8_t reserved = 0;
    std::uint32_t sent = 0; // number of saved entries
    std::uint32_t fetches = 0;
};

struct SavedConnection {
    ConnectionState state;
    std::vector<SentState> sent;
    std::vector<FetchState> fetches;
};

std::vector<std::byte> encode(const SavedConnection& saved);
// EINVAL for bytes that encode() never returns: another version, or a length that does not fit.
Result<SavedConnection> decode(std::span<const std::byte> bytes);

} // namespace vrdma::hca::soft::roce
