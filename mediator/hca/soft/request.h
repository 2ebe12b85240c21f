// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// What a requester sends to a responder and what comes back: one piece of a message, as a packet
// would be, but as long as a turn allows and with its payload still in the requester's memory.
#pragma once

#include "mediator/hca/soft/fabric.h"
#include "mediator/hca/soft/slice_core.h"
#include "mediator/hca/soft/span_list.h"
#include "mediator/hca/soft/wqe.h"

namespace vrdma::hca::soft {

// Where a message comes from and goes to, as its packets' headers would say.
struct Route {
    QpType type = QpType::rc; // of the QP that listens
    GidKey source;
    GidKey target;
    Qpn from;
    Qpn to;
    std::uint16_t pkey = default_pkey; // of who sends
    // Connected QPs only, as both sides have agreed:
    std::uint32_t first_psn = 0;
    std::uint8_t path_mtu = 0; // enum ibv_mtu
    // UD only:
    std::uint32_t qkey = 0;
    vrdma_av av{};
};

struct Request {
    const Message& message;
    SliceCore* from;           // who sends, or nullptr: a packet, whose payload no guest has
    const SpanList& payload;   // SEND, WRITE: the bytes. READ, atomics: where they go
    std::uint64_t offset = 0;  // of this piece in the message
    std::uint8_t path_mtu = 0; // of who sends, an enum ibv_mtu; 0: the packets are right

    // Where the payload is a guest's; else the other, in which nothing happens to it.
    GuestMemory& payload_memory(GuestMemory& other) const noexcept {
        return from != nullptr ? from->memory() : other;
    }
    bool first() const noexcept { return offset == 0; }
    bool last() const noexcept { return offset + payload.bytes() == message.length; }
};

enum class AckStatus : std::uint8_t {
    ok,
    no_answer,          // nobody there: as if the packet was lost
    receiver_not_ready, // no receive WQE
    invalid_request,
    access_error,
    operation_error,
    bad_response,    // the requester has agreed on other packets
    payload_revoked, // the requester's own memory was not there
    pages_absent,    // the responder's driver is being asked for its memory
    not_now,         // the network takes nothing more, or is asked where the peer is
};

struct Ack {
    AckStatus status = AckStatus::ok;
    std::uint8_t rnr_timer = 0;
};

} // namespace vrdma::hca::soft
