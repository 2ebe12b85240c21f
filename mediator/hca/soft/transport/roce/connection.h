// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A connected QP's state of the packets that it exchanges with a peer on the network (IBA 9.7,
// 9.8). outbound.cpp, send.cpp, acknowledge.cpp and recover.cpp change the outbound part,
// responder.cpp the inbound part, and port.cpp the list hooks. A QP of a device without an uplink
// has no connection.
#pragma once

#include <optional>

#include "mediator/hca/soft/common/ring.h"
#include "mediator/hca/soft/slice/queue_pair.h"
#include "mediator/hca/soft/transport/roce/congestion.h"
#include "mediator/hca/soft/transport/roce/credits.h"
#include "mediator/hca/soft/transport/roce/psn.h"
#include "mediator/hca/soft/transport/roce/round_trip.h"
#include "mediator/wire/packet.h"

namespace vrdma::hca::soft::roce {

class Connection;
class Port;
struct Member;

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
    // Only while probing: the peer has answered a probe that it is not ready. No packet but the
    // probe is under way, so a NAK of the sequence tells that it is ready now.
    bool resting = false;
    RoundTrip round_trip;
    // When outstanding packets count as lost, but not yet as a retry.
    Clock::time_point rto_deadline;
    Clock::time_point deadline; // when the peer's silence counts as a retry
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
    bool frozen = false;    // and its peer does not know yet that it need not wait any more
    bool ending = false;    // the QP has failed; earlier requests are still answered
};

// A connection that waits until it may send more.
struct Pacing {
    Connection& connection;
    Timer timer;
};

class alignas(cache_line) Connection final : public NetworkConnection {
  public:
    Connection(QueuePair& qp_, Port& port_, Member& member_) noexcept
        : qp{qp_}, port{port_}, member{member_} {}

    void locate_peer() noexcept override;
    Turn send() noexcept override;
    bool is_ending() const noexcept override { return in.ending; }
    bool fits(std::uint8_t path_mtu) const noexcept override;
    void start_receiving() noexcept override;
    void start_sending() noexcept override;
    void stop() noexcept override;
    void pause() noexcept override;
    void resume() noexcept override;
    std::vector<std::byte> save() const override;
    Result<> restore(std::span<const std::byte> state) override;

    QueuePair& qp;
    Port& port;
    Member& member; // the slice at the port

    // The peer's location, as known at that epoch of the routing table.
    std::uint64_t epoch = 0;
    wire::Path path;
    std::uint32_t mtu = 0; // payload bytes of a packet
    bool answering = false;
    bool executing = false; // a request of the peer

    Outbound out;
    Inbound in;
    ReactionPoint reaction;
    Clock::time_point noticed; // when the peer was last sent a notice of congestion

    Timer timer;                        // set to the RTO, or earlier
    Pacing pacing{*this, {}};           // while it is slowed
    ListHook<Connection> answers;       // something is to be answered
    ListHook<Connection> awaits_room;   // waits for room in the uplink
    ListHook<Connection> awaits_target; // waits for its peer's Ethernet address
};

// All connections are made by a port of this transport.
inline Connection& connection_of(const QueuePair& qp) noexcept {
    return static_cast<Connection&>(*qp.connection);
}

} // namespace vrdma::hca::soft::roce
