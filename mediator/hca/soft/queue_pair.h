// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A queue pair as the engine keeps it. Who moves what: requester.cpp the send queue, responder.cpp
// the receive queue, qp_state.cpp the state, scheduler.cpp the links.
#pragma once

#include <infiniband/verbs.h>

#include <algorithm>

#include "mediator/hca/soft/cache_line.h"
#include "mediator/hca/soft/completion_queue.h"
#include "mediator/hca/soft/counter_set.h"
#include "mediator/hca/soft/shared_receive_queue.h"
#include "mediator/hca/soft/timers.h"
#include "mediator/hca/soft/work_queue.h"
#include "mediator/hca/soft/wqe.h"

namespace vrdma::hca::soft {

class SliceCore;
struct Parcel;
namespace roce {
class Port;
struct Connection;
} // namespace roce
struct QueuePair;

// Who a connected QP talks to, as found at some epoch of the fabric: a QP of this poller, or a
// slice of another, or nobody.
struct Peer {
    std::uint64_t epoch = 0;
    QueuePair* qp = nullptr;
    SliceCore* elsewhere = nullptr;
};

enum class Attention : std::uint8_t {
    cold,  // its doorbell will tell
    ready, // in the list of those that get a turn
    hot,   // looked at in every round
};

// Payload of a packet, by an enum ibv_mtu.
inline std::uint32_t mtu_bytes(std::uint8_t path_mtu) noexcept {
    constexpr std::uint32_t smallest = 256;
    const unsigned steps = std::clamp<unsigned>(path_mtu, IBV_MTU_256, IBV_MTU_4096) - IBV_MTU_256;
    return smallest << steps;
}

struct alignas(cache_line) QueuePair {
    // An XRC_SEND QP has no recv_cq; an XRC_RECV QP has no CQ and no queues.
    static Result<std::unique_ptr<QueuePair>> create(SliceCore& slice, CompletionQueue* send_cq,
                                                     CompletionQueue* recv_cq,
                                                     SharedReceiveQueue* srq, const QpSpec& spec);
    QueuePair(const QueuePair&) = delete;
    QueuePair& operator=(const QueuePair&) = delete;
    ~QueuePair();

    vrdma_qp_control& control() const noexcept {
        return *reinterpret_cast<vrdma_qp_control*>(buffer.at(0));
    }
    ibv_qp_state state() const noexcept { return static_cast<ibv_qp_state>(attr.state); }
    bool reliable() const noexcept { return type != QpType::uc && type != QpType::ud; }

    // A WQE at the head of the SQ may be executed, or executed further. A draining QP finishes only
    // what it has begun.
    bool may_send() const noexcept {
        return state() == IBV_QPS_RTS || (state() == IBV_QPS_SQD && sq_started);
    }
    // Where the next message finds its WQE.
    const WorkQueue& receives() const noexcept { return srq != nullptr ? srq->wqes : rq; }
    // An SRQ's WQEs, of which it may hold one.
    bool shares_receives() const noexcept { return held != nullptr; }
    // WQEs at the head of the SQ are to be flushed; in the error state those of the RQ as well.
    bool flushes() const noexcept {
        return state() == IBV_QPS_SQE || state() == IBV_QPS_ERR || left_to_flush != 0;
    }
    // The message at the head of the SQ goes on when its parcel is back, or there is one for it.
    bool waits_for_parcel() const noexcept { return parcel != nullptr || wants_parcel.linked; }
    // Messages from the peer are taken.
    bool may_receive() const noexcept { return state() >= IBV_QPS_RTR && state() <= IBV_QPS_SQE; }

    // That its packets carry, and have to share a partition with (slice_core.h).
    std::uint16_t pkey() const noexcept;

    // Each message, and each piece that arrived, has all retries.
    void refill_retries() noexcept {
        retries_left = attr.retry_cnt;
        rnr_retries_left = attr.rnr_retry;
        unanswered = false;
    }

    // For it, for the set that it is bound to, and for its slice (slice_core.h).
    void count(vrdma_counter what, std::uint64_t by = 1) noexcept;
    // What the slice has counted already.
    void count_alone(vrdma_counter what, std::uint64_t by = 1) noexcept;

    SliceCore& slice;
    CompletionQueue* const send_cq;
    const Qpn id;
    const QpType type;
    const bool signal_all;
    const bool blocks_own_multicast;
    const XrcdId xrcd; // of XRC_RECV
    const WqeLimits send_limits;

    // Of an XRC_RECV QP these are those of the SRQ that the request names, for as long as it is
    // executed and while a WQE is held (xrc.h).
    CompletionQueue* recv_cq;
    SharedReceiveQueue* srq; // or nullptr
    PdId pd;
    PdId recv_pd; // of the keys in receive WQEs
    WqeLimits recv_limits;
    bool established = false; // a message arrived since RTR
    bool holds_receive = false;
    bool last_wqe_due = false; // the error state was entered, which is not announced yet

    GuestBuffer buffer;
    WorkQueue sq;
    WorkQueue rq;

    vrdma_qp_attr attr{}; // attr.state is the state
    std::uint32_t doorbell_page = 0;
    std::uint32_t doorbell_slot = 0;

    // With an SRQ: the WQE that was taken for a message that has not ended.
    const std::unique_ptr<RecvWqe> held;

    // The message at the head of the SQ: how much of it has arrived, and whether it was tried.
    std::uint64_t sent = 0;
    std::uint64_t served_join = 0; // to a multicast group: that of the slice which had it last
    bool sq_started = false;
    std::uint32_t left_to_flush = 0; // WQEs that were there when SQE was left (IBA 10.3.1.6)
    std::uint16_t page_waits = 0;    // how often it waited for pages since something arrived
    std::uint8_t retries_left = 0;
    std::uint8_t rnr_retries_left = 0;
    bool unanswered = false; // what was sent last
    Attention attention = Attention::cold;
    Timer timer;
    Clock::time_point active; // when a hot QP last had work
    Peer peer;
    Parcel* parcel = nullptr;     // a piece of the message is with another poller
    Link<QueuePair> wants_parcel; // or waits until it can be

    CqMember send_member;
    CqMember recv_member;
    SrqHolder srq_holder;
    Link<QueuePair> ready;
    List<MemoryRegion, &MemoryRegion::of_owner> windows; // of type 2, bound to this QP
    EventSource async_events;
    Link<QueuePair> slot_ring; // of those that share the doorbell slot, without an end

    CounterSet* counter_set = nullptr; // that it is bound to; beside what is counted most
    vrdma_counters counters{};

    // To peers on the network; nullptr of a datagram's QP, and where there is no port.
    std::unique_ptr<roce::Connection> connection;

  private:
    QueuePair(SliceCore& slice, CompletionQueue* send_cq, CompletionQueue* recv_cq,
              SharedReceiveQueue* srq, const QpSpec& spec, GuestBuffer buffer);
};

} // namespace vrdma::hca::soft
