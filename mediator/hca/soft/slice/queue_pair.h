// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A queue pair as the engine keeps it. send.cpp of local/ and of roce/ change the send queue,
// execute.cpp the receive queue, qp_state.cpp the state, and scheduler.cpp the list hooks.
#pragma once

#include <infiniband/verbs.h>

#include <algorithm>

#include "mediator/hca/soft/common/cache_line.h"
#include "mediator/hca/soft/common/counter_set.h"
#include "mediator/hca/soft/common/timers.h"
#include "mediator/hca/soft/queues/completion_queue.h"
#include "mediator/hca/soft/queues/work_queue.h"
#include "mediator/hca/soft/queues/wqe.h"
#include "mediator/hca/soft/slice/network.h"
#include "mediator/hca/soft/slice/shared_receive_queue.h"

namespace vrdma::hca::soft {

class SliceCore;
struct CrossRequest;
struct QueuePair;

// The peer of a connected QP, as found at an epoch of the routing table: a QP of this poller, or a
// slice of another poller, or none.
struct Peer {
    std::uint64_t epoch = 0;
    QueuePair* qp = nullptr;
    SliceCore* here = nullptr; // its slice, if this poller has it
    SliceCore* elsewhere = nullptr;
};

enum class Attention : std::uint8_t {
    cold,  // waits for its doorbell
    ready, // in the list of QPs that get a turn
    hot,   // looked at in every round
};

// Payload bytes of a packet, from an enum ibv_mtu.
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

    // Whether its producers look at words of the poller. PVRDMA's ring each time, and nobody posts
    // to an XRC_RECV QP.
    bool has_control() const noexcept {
        return recv_limits.format == QueueFormat::vrdma && buffer.length() != 0;
    }
    vrdma_qp_control& control() const noexcept {
        return *reinterpret_cast<vrdma_qp_control*>(buffer.at(0));
    }
    ibv_qp_state state() const noexcept { return static_cast<ibv_qp_state>(attr.state); }
    bool reliable() const noexcept { return type != QpType::uc && type != QpType::ud; }

    // Whether the WQE at the head of the SQ may be executed, or continued. A draining QP finishes
    // only what it has begun.
    bool may_send() const noexcept {
        return state() == IBV_QPS_RTS || (state() == IBV_QPS_SQD && sq_started);
    }
    // The queue from which the next message takes its WQE.
    const WorkQueue& receives() const noexcept { return srq != nullptr ? srq->wqes : rq; }
    // Whether it takes WQEs from SRQs, and may hold one of them.
    bool shares_receives() const noexcept { return held != nullptr; }
    // Whether the WQEs of the SQ are to be flushed. In the error state, those of the RQ are
    // flushed, too.
    bool flushes() const noexcept {
        return state() == IBV_QPS_SQE || state() == IBV_QPS_ERR || left_to_flush != 0;
    }
    // Whether the message at the head of the SQ waits for its cross-poller request to return, or to
    // get one.
    bool waits_for_cross_request() const noexcept {
        return cross_request != nullptr || wants_cross_request.linked;
    }
    // Whether the QP accepts messages from its peer.
    bool may_receive() const noexcept { return state() >= IBV_QPS_RTR && state() <= IBV_QPS_SQE; }

    // The P_Key that its packets carry. Incoming packets must share its partition (slice_core.h).
    std::uint16_t pkey() const noexcept;

    // Restores all retries. This happens for each message, and whenever a piece has arrived.
    void refill_retries() noexcept {
        retries_left = attr.retry_cnt;
        rnr_retries_left = attr.rnr_retry;
        unanswered = 0;
        expects_peer = false;
    }
    // The peer has answered for a piece.
    void note_arrival() noexcept {
        answered = true;
        refill_retries();
    }

    // Whether it waits without end for a receiver that is not ready, which is the greatest number
    // of retries (IBA 9.7.5.2.8).
    bool waits_without_end() const noexcept {
        constexpr std::uint8_t without_end = 7;
        return attr.rnr_retry == without_end;
    }
    // Takes one of the retries for such a receiver. Returns false if none is left.
    bool take_rnr_retry() noexcept { return waits_without_end() || rnr_retries_left-- != 0; }

    // Counts for the QP, for its counter set, and for its slice (slice_core.h).
    void count(vrdma_counter what, std::uint64_t by = 1) noexcept;
    // The same, for events that the slice has counted already.
    void count_alone(vrdma_counter what, std::uint64_t by = 1) noexcept;

    SliceCore& slice;
    CompletionQueue* const send_cq;
    const Qpn id;
    const QpType type;
    const bool signal_all;
    const bool blocks_own_multicast;
    const std::uint32_t handle; // of PVRDMA
    const XrcdId xrcd;          // of XRC_RECV
    const WqeLimits send_limits;

    // For an XRC_RECV QP, the following belong to the SRQ that the request names, while the request
    // is executed and while a WQE is held (xrc.h).
    CompletionQueue* recv_cq;
    SharedReceiveQueue* srq; // or nullptr
    PdId pd;
    PdId recv_pd; // of the keys in receive WQEs
    WqeLimits recv_limits;
    bool established = false; // a message arrived since RTR
    bool holds_receive = false;
    bool last_wqe_due = false; // the QP has entered the error state; the event is not announced yet

    GuestBuffer buffer;
    WorkQueue sq;
    WorkQueue rq;

    vrdma_qp_attr attr{}; // attr.state is the state
    std::uint32_t doorbell_page = 0;
    std::uint32_t doorbell_slot = 0;

    // With an SRQ: the WQE that was taken for a message that has not ended.
    const std::unique_ptr<RecvWqe> held;

    // The message at the head of the SQ: how many bytes have arrived, and whether it was tried.
    std::uint64_t sent = 0;
    std::uint64_t served_join = 0; // of a multicast: the join of the slice that had it last
    bool sq_started = false;
    std::uint32_t left_to_flush = 0; // WQEs in the SQ when the QP left SQE (IBA 10.3.1.6)
    std::uint16_t page_waits = 0;    // how often it waited for pages since something arrived
    std::uint8_t retries_left = 0;
    std::uint8_t rnr_retries_left = 0;
    std::uint8_t unanswered = 0; // the attempts without an answer since a retry counted
    bool answered = false;       // the peer has answered since RTR
    // It was restored, and has no answer since. If its peer's device runs without the peer, the
    // connection is lost, and retries would be in vain.
    bool expects_peer = false;
    Attention attention = Attention::cold;
    Timer timer;
    Clock::time_point active; // when a hot QP last had work
    Peer peer;
    CrossRequest* cross_request = nullptr;   // a piece of the message is with another poller
    ListHook<QueuePair> wants_cross_request; // or it waits for a cross-poller request

    CqMember send_member;
    CqMember recv_member;
    SrqHolder srq_holder;
    ListHook<QueuePair> ready;
    List<MemoryRegion, &MemoryRegion::of_owner> windows; // of type 2, bound to this QP
    EventSource async_events;
    ListHook<QueuePair> slot_ring; // ring of the QPs that share the doorbell slot

    CounterSet* counter_set = nullptr; // that it is bound to; beside the counters that change most
    vrdma_counters counters{};

    // For peers on the network. nullptr without a port, and for a UD QP at most ports.
    std::unique_ptr<NetworkConnection> connection;

  private:
    QueuePair(SliceCore& slice, CompletionQueue* send_cq, CompletionQueue* recv_cq,
              SharedReceiveQueue* srq, const QpSpec& spec, GuestBuffer buffer);
};

} // namespace vrdma::hca::soft
