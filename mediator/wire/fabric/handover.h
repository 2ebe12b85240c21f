// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Passes connections from the control thread, which makes and ends them, to the poller, which uses
// them, and back. Neither waits for the other, and there is no lock. Each peer has a number.
#pragma once

#include <array>
#include <atomic>
#include <memory>

#include "mediator/base/event_fd.h"
#include "mediator/wire/fabric/connection.h"

namespace vrdma::wire::fabric {

class Handover {
  public:
    static constexpr unsigned max_peers = 1024;

    static Result<std::shared_ptr<Handover>> create();
    Handover(const Handover&) = delete;
    Handover& operator=(const Handover&) = delete;
    ~Handover();

    // The control thread's side. A connection replaces the one before, which is handed back.
    void offer(unsigned peer, std::unique_ptr<Connection> connection);
    // The peer is to have no connection.
    void withdraw(unsigned peer);
    // The poller is to tell the peer that we live.
    void say_alive(unsigned peer);
    // The number of messages that the peer's connection has brought.
    std::uint64_t heard(unsigned peer) const noexcept;
    // The peer has a connection, as far as returned ones were collected.
    bool has(unsigned peer) const noexcept { return slots_[peer].given != 0; }
    // Ends the connections that were handed back. The fd is readable when there are any.
    void collect();
    int returned_fd() const noexcept { return to_control_.fd(); }

    // The poller's side: the news of a peer since the last call.
    struct News {
        std::unique_ptr<Connection> connection;
        bool withdrawn = false;
        bool say_alive = false;
    };
    int news_fd() const noexcept { return to_poller_.fd(); }
    template <typename Call>
    void take_news(Call&& call) noexcept {
        to_poller_.drain();
        const unsigned count = peers_.load(std::memory_order_acquire);
        for (unsigned peer = 0; peer < count; ++peer) {
            Slot& slot = slots_[peer];
            if (slot.news.exchange(false, std::memory_order_acquire)) {
                call(peer, take(slot));
            }
        }
    }
    void tell_heard(unsigned peer, std::uint64_t messages) noexcept {
        slots_[peer].heard.store(messages, std::memory_order_relaxed);
    }
    void hand_back(unsigned peer, std::unique_ptr<Connection> connection) noexcept;

  private:
    struct Slot {
        std::atomic<bool> news{false};
        std::atomic<Connection*> connection{nullptr};
        std::atomic<bool> withdrawn{false};
        std::atomic<bool> say_alive{false};
        std::atomic<std::uint64_t> heard{0};
        std::atomic<Connection*> back{nullptr}; // a stack
        unsigned given = 0;                     // and not collected; for the control thread only
    };

    Handover(EventFd to_poller, EventFd to_control)
        : to_poller_{std::move(to_poller)}, to_control_{std::move(to_control)} {}

    static News take(Slot& slot) noexcept;
    static void take_untaken(Slot& slot, Connection* instead);
    void announce(unsigned peer);

    std::array<Slot, max_peers> slots_;
    std::atomic<unsigned> peers_{0}; // one more than the highest peer ever named
    EventFd to_poller_;
    EventFd to_control_;
};

} // namespace vrdma::wire::fabric
