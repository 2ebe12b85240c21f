// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Messages between slices of different pollers. The requester's poller lends a parcel to the
// responder's, which executes the piece of a message that it describes, on its own thread, and
// gives it back with the answer. A QP has one parcel out at a time, so its messages stay in order.
//
// While a parcel is out the other poller touches this side's memory. Whoever takes memory or QPs
// away drains first: it waits for the parcels that were out when it began.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "mediator/hca/soft/cache_line.h"
#include "mediator/hca/soft/queue_pair.h"
#include "mediator/hca/soft/request.h"
#include "mediator/hca/soft/run_queue.h"

namespace vrdma::hca::soft {

class SliceCore;

struct alignas(cache_line) Parcel {
    Message message;
    Route route;
    SpanList payload{0};
    std::uint64_t offset = 0;
    SliceCore* from = nullptr;
    SliceCore* to = nullptr;
    QueuePair* sender = nullptr; // nullptr once it no longer wants an answer
    std::uint64_t cost = 0;      // of its sender's account
    std::uint64_t holes = 0;     // that were met, on either side
    unsigned generation = 0;
    unsigned receivers = 0; // of a datagram to a group
    Ack ack;

    Request request() const noexcept { return {message, from, payload, offset, route.path_mtu}; }
};

class Exchange {
  public:
    // `wake` gets this exchange's poller out of its sleep, from any thread.
    explicit Exchange(std::function<void()> wake) : wake_{std::move(wake)} {}
    Exchange(const Exchange&) = delete;
    Exchange& operator=(const Exchange&) = delete;
    ~Exchange() = default;

    // Before any slice is carved: makes all of them reachable from each other.
    static void connect(std::span<Exchange* const> all);

    // Lends a parcel to the poller of `to`. False while all are out, or its slice has its part of
    // them: the sender gets a turn as soon as there is one for it.
    bool send(QueuePair& sender, const Request& request, const Route& route,
              SliceCore& to) noexcept;
    // The sender is reset or goes: its parcel's answer means nothing any more.
    void abandon(QueuePair& sender) noexcept;

    // Nothing of the slice waits here any more.
    void forget(RunQueue& queue) noexcept { waiting_.remove(queue); }

    // Executes what others lent, and takes answers. Returns whether there was any.
    bool serve() noexcept;
    // Whether there is something to serve; together with a fence, for whoever goes to sleep.
    bool pending() const noexcept;

    // Parcels that are out now belong to the generation returned; drained() once they are back.
    unsigned begin_drain() noexcept;
    bool drained(unsigned generation) const noexcept { return out_[generation] == 0; }

  private:
    static constexpr std::size_t parcels = 64;
    // What a slice may have out: some small pieces, or two of the longest.
    static constexpr std::uint64_t most_lent = 128 << 10;

    // A queue of one producer and one consumer. No index is shared: a slot is taken while it is not
    // null, and there are as many slots as parcels.
    class Lane {
      public:
        void push(Parcel& parcel) noexcept;
        Parcel* pop() noexcept;
        bool empty() const noexcept;

      private:
        std::array<std::atomic<Parcel*>, parcels> slots_{};
        alignas(cache_line) std::size_t in_ = 0;  // producer's
        alignas(cache_line) std::size_t out_ = 0; // consumer's
    };

    // What one other exchange sends here.
    struct Link {
        Exchange* other = nullptr;
        Lane requests;
        Lane answers;
    };

    Link& link_from(const Exchange& other) noexcept { return *links_[other.index_]; }
    bool execute_some(Link& link) noexcept;
    void execute(Parcel& parcel) noexcept;
    void take_back(Parcel& parcel) noexcept;
    bool serve_waiting() noexcept;

    const std::function<void()> wake_;
    std::size_t index_ = 0;
    std::vector<std::unique_ptr<Link>> links_; // by the other's index; null for itself
    std::vector<std::unique_ptr<Parcel>> owned_;
    LineVector<Parcel*> idle_;
    List<RunQueue, &RunQueue::waits_for_parcels> waiting_; // while none is idle, or theirs are out
    unsigned generation_ = 0;
    std::array<std::size_t, 2> out_{}; // by generation
};

} // namespace vrdma::hca::soft
