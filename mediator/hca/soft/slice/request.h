// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A request to a responder, and its answer. A request is one piece of a message. It is like a
// packet, but as long as a turn allows, and its payload is still in the requester's memory.
#pragma once

#include "mediator/hca/soft/memory/span_list.h"
#include "mediator/hca/soft/queues/wqe.h"
#include "mediator/hca/soft/routing/route.h"
#include "mediator/hca/soft/slice/slice_core.h"

namespace vrdma::hca::soft {

struct Request {
    const Message& message;
    SliceCore* from;           // the sender; nullptr: a packet from the network
    const SpanList& payload;   // SEND, WRITE: the bytes. READ, atomics: where they go
    std::uint64_t offset = 0;  // of this piece in the message
    std::uint8_t path_mtu = 0; // the sender's, an enum ibv_mtu; 0: packets fit

    // The memory of the guest that has the payload. If no guest has it, `other`, which does not
    // affect the payload.
    GuestMemory& payload_memory(GuestMemory& other) const noexcept {
        return from != nullptr ? from->memory() : other;
    }
    // Whether the payload is a guest's memory, and not a frame.
    bool seen_by_peer() const noexcept { return from != nullptr; }
    bool first() const noexcept { return offset == 0; }
    bool last() const noexcept { return offset + payload.bytes() == message.length; }
};

enum class AckStatus : std::uint8_t {
    ok,
    no_answer,          // no receiver: as if the packet was lost
    no_such_qp,         // the same, but the receiver's device runs
    receiver_not_ready, // no receive WQE
    invalid_request,
    access_error,
    operation_error,
    bad_response,    // the requester has another path MTU
    payload_revoked, // the requester's own memory was absent
    pages_absent,    // the responder's driver is being asked for its memory
    not_now,         // the network takes no more, or the peer's address is being looked up
    resting,         // the receiver is frozen for a while: no retry
};

struct Ack {
    AckStatus status = AckStatus::ok;
    std::uint8_t rnr_timer = 0; // of receiver_not_ready and resting
};

} // namespace vrdma::hca::soft
