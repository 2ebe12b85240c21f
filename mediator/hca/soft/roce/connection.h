// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A connected QP's state of the packets that it exchanges with a peer on the network (IBA 9.7,
// 9.8). requester.cpp changes the outbound part, responder.cpp the inbound part, and port.cpp the
// links. A QP of a device without an uplink has no connection.
#pragma once

#include <optional>

#include "mediator/hca/soft/queue_pair.h"
#include "mediator/hca/soft/roce/congestion.h"
#include "mediator/hca/soft/roce/credits.h"
#include "mediator/hca/soft/roce/psn.h"
#include "mediator/hca/soft/roce/ring.h"
#include "mediator/hca/soft/roce/round_trip.h"
#include "mediator/wire/packet.h"

namespace vrdma::hca::soft::roce {

class Port;

// A WQE whose packets have PSNs, and that the peer has not completely acknowledged.
struct Sent {
    std::uint32_t index = 0; // in the send queue
    Psn first = 0;
    Psn last = 0;
    vrdma_sq_opcode opcode = VRDMA_SQ_SEND;
    bool signaled = false;
    bool misaligned = false; // its remote address is not aligned
    bool asks = false;       // if there is a receive; later packets wait for the answer
    std::uint64_t length = 0;

    // The fields that its completion needs.
    Message message() const noexcept {
        Message message;
        message.opcode = opcode;
        message.signaled = signaled;
        message.length = length;
        return message;
    }
};

// Packets go out in the order of their PSNs: first those of `sent`, then those of new WQEs. The
// head of the send queue is the WQE of the next packet: `sent[cursor]`, or a new one.
// QueuePair::sent bytes of it have gone out (of a READ: have come in).
struct Outbound {
    static constexpr std::size_t max_messages = 32;

    Ring<Sent, max_messages> sent;
    std::size_t cursor = 0;
    Psn snd_una = 0;      // the oldest that is not acknowledged
    Psn snd_nxt = 0;      // of the next packet
    Psn snd_max = 0;      // the first that was never sent
    unsigned fetches = 0; // READs and atomics in `sent`
    CreditsTaken credits;
    bool recovering = false; // went back since the peer last acknowledged anything
    bool probing = false; // went back because the peer is silent: one packet asks, the others wait
    RoundTrip round_trip;
    // When outstanding packets count as lost, but not yet as a retry.
    Clock::time_point rto_deadline;
    Clock::time_point deadline; // when the QP's timeout ends, which counts as a retry
};

// A READ or an atomic that the peer requested. It is kept until enough others have come that the
// peer cannot repeat the request (IBA 9.7.5.1.3).
struct Fetch {
    Psn first = 0;
    Psn last = 0;
    std::uint32_t answered = 0; // response packets sent
    std::uint32_t begin = 0;    // the first of them that answers the latest request
    bool repeated = false;      // the peer repeated its request
    Message message;
    std::uint64_t original = 0; // of an atomic: the value before it

    bool is_answered() const noexcept {
        return static_cast<std::int32_t>(answered) > distance(first, last);
    }
};

// Tells the peer that it has to send a packet again, or that it was refused.
struct Nak {
    Psn psn = 0;
    std::uint8_t syndrome = 0;
    vrdma_counter counter = VRDMA_COUNTER_SENT_SEQUENCE_NAKS;
};

struct Inbound {
    static constexpr std::size_t max_fetches = 16;

    Psn expected = 0;
    std::uint32_t msn = 0;
    // The incoming message.
    bool open = false;
    Message message;
    std::uint64_t offset = 0;

    bool told_gap = false; // a NAK was sent; packets are dropped until the expected one comes
    bool ack_due = false;
    CreditsGiven credits;
    Ring<Fetch, max_fetches> fetches;
    std::optional<Nak> nak; // goes out after the answers to earlier requests (IBA 9.7.5.1.1)
    bool ending = false;    // the QP has failed; earlier requests are still answered
};

// A connection that waits until it may send more.
struct Pacing {
    Connection& connection;
    Timer timer;
};

struct alignas(cache_line) Connection {
    Connection(QueuePair& qp_, Port& port_) noexcept : qp{qp_}, port{port_} {}
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;
    ~Connection() = default;

    QueuePair& qp;
    Port& port;

    // The peer's location, as known at that epoch of the routing table.
    std::uint64_t epoch = 0;
    wire::Path path;
    std::uint32_t mtu = 0; // payload bytes of a packet
    bool remote = false;
    bool answering = false;
    bool executing = false; // a request of the peer

    Outbound out;
    Inbound in;
    ReactionPoint reaction;
    Clock::time_point noticed; // when the peer was last sent a notice of congestion

    Timer timer;                    // set to the RTO, or earlier
    Pacing pacing{*this, {}};       // while it is slowed
    Link<Connection> answers;       // something is to be answered
    Link<Connection> awaits_room;   // waits for room in the uplink
    Link<Connection> awaits_target; // waits for its peer's Ethernet address
};

// Whether the QP's messages leave this host. The result stays the same while any are outstanding.
bool is_remote(QueuePair& qp) noexcept;

inline bool is_ending(const QueuePair& qp) noexcept {
    return qp.connection != nullptr && qp.connection->in.ending;
}

// Whether packets of that enum ibv_mtu fit the uplink.
bool fits(const Connection& connection, std::uint8_t path_mtu) noexcept;

// The QP enters RTR, RTS, or a state in which it neither sends nor receives.
void start_receiving(Connection& connection) noexcept;
void start_sending(Connection& connection) noexcept;
void stop(Connection& connection) noexcept;
// The slice is frozen. Packets that are not acknowledged are sent again when it is thawed.
void pause(Connection& connection) noexcept;
void resume(Connection& connection) noexcept;

} // namespace vrdma::hca::soft::roce
