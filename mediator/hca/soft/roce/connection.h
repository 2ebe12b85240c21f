// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// What a connected QP keeps of the packets that it exchanges with a peer on the network (IBA 9.7,
// 9.8). Who moves what: requester.cpp what goes out, responder.cpp what comes in, port.cpp the
// links. A QP of a device without an uplink has none.
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

// A WQE whose packets have PSNs, of which the peer has not acknowledged all.
struct Sent {
    std::uint32_t index = 0; // in the send queue
    Psn first = 0;
    Psn last = 0;
    vrdma_sq_opcode opcode = VRDMA_SQ_SEND;
    bool signaled = false;
    bool askew = false; // names a word that is not aligned
    bool asks = false;  // whether there is a receive: goes on when its first packet was taken
    std::uint64_t length = 0;

    // As much of it as its completion needs.
    Message message() const noexcept {
        Message message;
        message.opcode = opcode;
        message.signaled = signaled;
        message.length = length;
        return message;
    }
};

// Packets go out in the order of their PSNs, of what is in `sent` and then of new WQEs. The head of
// the send queue is the WQE that is next for a packet: `sent[cursor]`, of which QueuePair::sent
// bytes have gone out (of a READ: have come in), or a new one.
struct Outbound {
    static constexpr std::size_t max_messages = 32;

    Ring<Sent, max_messages> sent;
    std::size_t cursor = 0;
    Psn oldest = 0;       // not acknowledged
    Psn next = 0;         // of the packet that is next
    Psn fresh = 0;        // the first that never went out
    unsigned fetches = 0; // of `sent`
    CreditsTaken credits;
    bool recovering = false; // went back since the peer last acknowledged anything
    bool probing = false;    // went back because the peer is silent: all but a packet waits for it
    RoundTrip round_trip;
    Clock::time_point suspicion; // when what is under way is taken for lost; nobody is blamed yet
    Clock::time_point deadline;  // when the peer has failed to answer once
};

// A READ or an atomic that the peer asked for. It is kept until so many others have come that the
// peer cannot ask for it again (IBA 9.7.5.1.3).
struct Fetch {
    Psn first = 0;
    Psn last = 0;
    std::uint32_t answered = 0; // packets of its response
    std::uint32_t begin = 0;    // of them, the first of what the peer asked for last
    bool repeated = false;      // the peer asked again
    Message message;
    std::uint64_t original = 0; // of an atomic, what was there before

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
    // The message under way.
    bool open = false;
    Message message;
    std::uint64_t offset = 0;

    bool told_gap = false; // NAKed; what follows is dropped until the expected packet comes
    bool ack_due = false;
    CreditsGiven credits;
    Ring<Fetch, max_fetches> fetches;
    std::optional<Nak> nak; // goes out behind the answers of what came before (IBA 9.7.5.1.1)
    bool ending = false;    // the QP has failed; what the peer asked for before is answered
};

// Waits until it may send more.
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

    // Where the peer is, as far as known at that epoch of the fabric.
    std::uint64_t epoch = 0;
    wire::Path path;
    std::uint32_t mtu = 0; // payload bytes of a packet
    bool remote = false;
    bool answering = false;
    bool executing = false; // what the peer asks for

    Outbound out;
    Inbound in;
    ReactionPoint reaction;
    Clock::time_point noticed; // when the peer had a notice of congestion last

    Timer timer;                    // of the suspicion, or earlier
    Pacing pacing{*this, {}};       // of a slowed one
    Link<Connection> answers;       // something is to be answered
    Link<Connection> awaits_room;   // in the uplink
    Link<Connection> awaits_target; // until somebody knows its peer's Ethernet address
};

// Whether the QP's messages leave this host. It stays so while any are under way.
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
// The slice is frozen: what was not acknowledged goes out again when it is thawed.
void pause(Connection& connection) noexcept;
void resume(Connection& connection) noexcept;

} // namespace vrdma::hca::soft::roce
