// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The MACs of destinations, for devices whose driver has no kernel that knows them. They come from
// the host's routing and neighbour tables. The kernel asks the network, and keeps the answers. This
// class keeps the questions that wait. Runs on the control thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "mediator/base/event_loop.h"
#include "mediator/wire/packet.h"
#include "mediator/wire/uplink/neighbour_table.h"
#include "mediator/wire/uplink/netlink.h"

namespace vrdma::wire {

class Neighbours {
    struct Key {
        Gid next_hop{};
        std::uint64_t number = 0; // of the question

        // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 means the 0 that <=> compares with
        friend auto operator<=>(const Key&, const Key&) = default;
    };

  public:
    // The kernel gives up after three requests, a second apart.
    static constexpr std::chrono::milliseconds answer_timeout{3500};
    // Each waiting question has a place in the kernel's table. When the table is full, it refuses
    // the host's own questions. By default it has 1024 places.
    static constexpr std::size_t max_waiting = 512;

    using Receiver = std::function<void(Result<Mac>)>;

    // When it ends, its answer is not wanted any more. It must not outlive the Neighbours.
    class Question {
      public:
        Question() = default;
        Question(Question&& other) noexcept { *this = std::move(other); }
        Question& operator=(Question&& other) noexcept {
            std::swap(neighbours_, other.neighbours_);
            std::swap(key_, other.key_);
            return *this;
        }
        Question(const Question&) = delete;
        Question& operator=(const Question&) = delete;
        ~Question() {
            if (neighbours_ != nullptr) {
                neighbours_->waiting_.erase(key_);
            }
        }

      private:
        friend class Neighbours;
        Question(Neighbours* neighbours, const Key& key) : neighbours_{neighbours}, key_{key} {}

        Neighbours* neighbours_ = nullptr;
        Key key_;
    };

    static Result<std::unique_ptr<Neighbours>> create(EventLoop& loop,
                                                      const std::string& interface);

    // The receiver is called once: before resolve() returns, if the answer is known, or later.
    // network_unreachable: no route leads there by this interface. host_unreachable: nobody
    // answers. resource_unavailable_try_again: too many questions wait.
    [[nodiscard]] Question resolve(const Gid& source, const Gid& target, Receiver receiver);

  private:
    using Clock = std::chrono::steady_clock;

    struct Waiting {
        int link_index;
        Receiver receiver;
        Clock::time_point deadline;
    };

    Neighbours(int link_index, Netlink tables, Netlink events, UniqueFd timer);

    Result<> watch(EventLoop& loop);
    void on_events();
    void on_timer();
    void look_at(const Gid& next_hop);
    void answer(const Gid& next_hop, const Result<Mac>& answer);
    void set_timer(std::chrono::milliseconds period);

    int link_index_;
    Netlink tables_;
    Netlink events_;
    UniqueFd timer_; // ticks while any question waits
    std::map<Key, Waiting> waiting_;
    std::uint64_t next_number_ = 0;
    EventLoop::Watch events_watch_;
    EventLoop::Watch timer_watch_;
};

} // namespace vrdma::wire
