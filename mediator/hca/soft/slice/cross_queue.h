// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Messages between slices of different pollers. The requester's poller lends a cross-poller request
// to the responder's poller. The responder's poller executes the piece of a message that the
// cross-poller request describes, on its own thread, and returns the cross-poller request with the
// answer. A QP has one cross-poller request out at a time, so its messages stay in order.
//
// While a cross-poller request is out, the other poller touches this side's memory. A caller that
// takes away memory or QPs drains first: it waits for the cross-poller requests that were out when
// it began.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "mediator/hca/soft/common/cache_line.h"
#include "mediator/hca/soft/slice/queue_pair.h"
#include "mediator/hca/soft/slice/request.h"
#include "mediator/hca/soft/slice/run_queue.h"

namespace vrdma::hca::soft {

struct alignas(cache_line) CrossRequest {
    Message message;
    Route route;
    SpanList payload{0};
    std::uint64_t offset = 0;
    SliceCore* from = nullptr;
    SliceCore* to = nullptr;
    QueuePair* sender = nullptr; // nullptr once it no longer wants an answer
    std::uint64_t cost = 0;      // in the units of the sender's account
    std::uint64_t holes = 0;     // absent pages that were met, on either side
    unsigned generation = 0;
    unsigned receivers = 0; // of a datagram to a group
    Ack ack;

    Request request() const noexcept { return {message, from, payload, offset, route.path_mtu}; }
};

class CrossQueue {
  public:
    // The queue's poller handles requests and answers by it.
    class Handler {
      public:
        virtual ~Handler() = default;
        // Executes a request of another poller, and sets its answer.
        virtual void execute(CrossRequest& request) noexcept = 0;
        // The answer to a request has come.
        virtual void conclude(QueuePair& sender, const CrossRequest& request) noexcept = 0;
        // There is a cross-poller request for a QP that waits for one.
        virtual void resume(QueuePair& sender) noexcept = 0;
    };

    // `wake` ends the sleep of this queue's poller. Any thread may call it.
    explicit CrossQueue(std::function<void()> wake) : wake_{std::move(wake)} {}
    CrossQueue(const CrossQueue&) = delete;
    CrossQueue& operator=(const CrossQueue&) = delete;
    ~CrossQueue() = default;

    // Connects all exchanges with each other. Called before any slice is carved.
    static void connect(std::span<CrossQueue* const> all);

    // Lends a cross-poller request to the poller of `to`. Returns false while all cross-poller
    // requests are out, or the sender's slice has its share of them: the sender gets a turn as soon
    // as there is a cross-poller request for it.
    bool send(QueuePair& sender, const Request& request, const Route& route,
              SliceCore& to) noexcept;
    // The sender is reset or destroyed: its cross-poller request's answer is ignored.
    void abandon(QueuePair& sender) noexcept;

    // Removes the slice from the slices that wait for cross-poller requests.
    void forget(RunQueue& queue) noexcept { waiting_.remove(queue); }

    // Executes the requests of other pollers, and takes answers. Returns whether there were any.
    bool serve(Handler& handler) noexcept;
    // Whether there is something to serve. A poller calls it, after a fence, before it sleeps.
    bool pending() const noexcept;

    // Returns the generation of the cross-poller requests that are out now. drained() is true once
    // they are back.
    unsigned begin_drain() noexcept;
    bool drained(unsigned generation) const noexcept { return out_[generation] == 0; }

  private:
    static constexpr std::size_t max_requests = 64;
    // The maximum cost of the cross-poller requests that a slice may have out, in the units of its
    // account: some small pieces, or two of the longest.
    static constexpr std::uint64_t max_lent = 128 << 10;

    // A queue with one producer and one consumer. No index is shared: a slot is taken while it is
    // not null, and there are as many slots as cross-poller requests.
    class SpscRing {
      public:
        void push(CrossRequest& lent) noexcept;
        CrossRequest* pop() noexcept;
        bool empty() const noexcept;

      private:
        std::array<std::atomic<CrossRequest*>, max_requests> slots_{};
        alignas(cache_line) std::size_t in_ = 0;  // producer's
        alignas(cache_line) std::size_t out_ = 0; // consumer's
    };

    // The requests and answers that the queue of one other poller sends here.
    struct Channel {
        CrossQueue* other = nullptr;
        SpscRing requests;
        SpscRing answers;
    };

    Channel& channel_from(const CrossQueue& other) noexcept { return *channels_[other.index_]; }
    bool execute_some(Channel& channel, Handler& handler) noexcept;
    void take_back(CrossRequest& lent, Handler& handler) noexcept;
    bool serve_waiting(Handler& handler) noexcept;

    const std::function<void()> wake_;
    std::size_t index_ = 0;
    std::vector<std::unique_ptr<Channel>> channels_; // by the other's index; null for itself
    std::vector<std::unique_ptr<CrossRequest>> owned_;
    LineVector<CrossRequest*> idle_;
    // Slices that wait for an idle cross-poller request, or for the return of their own.
    List<RunQueue, &RunQueue::awaits_cross_requests> waiting_;
    unsigned generation_ = 0;
    std::array<std::size_t, 2> out_{}; // by generation
};

} // namespace vrdma::hca::soft
