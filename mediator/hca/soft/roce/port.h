// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The port of an engine's slices to a network: packets out of and into an uplink, and whose they
// are.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "mediator/base/event_fd.h"
#include "mediator/hca/soft/fabric.h"
#include "mediator/hca/soft/list.h"
#include "mediator/hca/soft/roce/connection.h"
#include "mediator/hca/soft/roce/neighbour_cache.h"
#include "mediator/hca/soft/roce/questions.h"
#include "mediator/hca/soft/roce/turnaround.h"
#include "mediator/hca/soft/run_queue.h"
#include "mediator/hca/soft/timers.h"
#include "mediator/wire/packet.h"
#include "mediator/wire/priorities.h"
#include "mediator/wire/uplink.h"

namespace vrdma::hca::soft {

class Engine;
class HoleCount;

namespace roce {

// A packet that is being made. The payload is put in place, then it is sent.
struct Draft {
    std::span<std::byte> frame;
    std::span<std::byte> payload;
};

class Port {
  public:
    Port(Engine& engine, std::unique_ptr<wire::Uplink> uplink, EventFd unknown_signal);
    Port(const Port&) = delete;
    Port& operator=(const Port&) = delete;
    ~Port() = default;

    Engine& engine() const noexcept { return engine_; }
    // Takes another uplink in the place of its own, and gives that back. Who is where, is asked
    // anew.
    void renew(std::unique_ptr<wire::Uplink>& uplink);
    // The largest enum ibv_mtu, in bytes, whose packets fit.
    std::uint32_t max_mtu() const noexcept { return max_mtu_; }
    // Whether the uplink has a carrier. What is sent without is lost, and sent again as whatever
    // networks lose.
    bool up() const noexcept { return up_; }
    // The uplink's speed in Mb/s, or what it was while it had a carrier. 0: nobody knows.
    std::uint32_t mbps() const noexcept { return mbps_; }
    // The same in bytes a second, as good as known.
    std::uint64_t line_rate() const noexcept {
        constexpr std::uint64_t bytes_a_mbit = 125'000;
        return mbps_ != 0 ? mbps_ * bytes_a_mbit : ReactionPoint::usual_line_rate;
    }
    // The uplink has changed: its carrier, its MTU, or its speed, of which 0 says nothing.
    void set_link(bool up, std::uint32_t mbps) noexcept;
    // The interface's Ethernet address, and the one that it had at first, which devices may have.
    // From then on a frame counts only for whose Ethernet address it has.
    void set_macs(const wire::Mac& first, const wire::Mac& now) noexcept { macs_ = {first, now}; }
    // Which priorities its packets have; at first as nobody has told otherwise.
    const wire::Priorities& priorities() const noexcept { return priorities_; }
    void set_priorities(const wire::Priorities& priorities) noexcept;
    bool is_addressed(const SliceCore& slice, const wire::Packet& packet) const noexcept;
    bool is_addressed_to_group(const wire::Packet& packet) const noexcept;

    // Room for a packet with so much payload; nothing while the network takes no more. One that no
    // frame has room for, as its QP was connected when they were longer, is lost when it is sent.
    std::optional<Draft> draft(const wire::Path& path, std::uint8_t opcode,
                               std::size_t payload_bytes) noexcept;
    void send(const Draft& draft, const wire::Path& path, const wire::Headers& headers) noexcept;

    // How often a frame to that address leaves; 1 at least.
    std::size_t copies(const wire::Mac& target) const noexcept {
        return std::max<std::size_t>(1, uplink_->copies(target));
    }

    // The connection gets a turn when there is room again.
    void await_room(Connection& connection) noexcept;
    // The same when its peer's Ethernet address has become known.
    void await_target(Connection& connection) noexcept;
    // The same when it is time, and to go on with what it answers.
    void await_due(Connection& connection, Clock::time_point due) noexcept;
    // It has something to answer.
    void answer_soon(Connection& connection) noexcept;
    // expire() is called for it then, or earlier.
    void set_timer(Connection& connection) noexcept;
    // It has nothing under way any more.
    void forget(Connection& connection) noexcept;
    void forget(RunQueue& queue) noexcept {
        answering_.remove(queue);
        asking_.remove(queue.questions);
    }
    void reserve(std::size_t connections) {
        timers_.reserve(connections);
        paced_.reserve(connections);
    }

    // Puts the Ethernet address of the path's target into it, if that is not there. False while it
    // is not known; the control thread is asked for it, as a question of the slice's.
    bool find_target(SliceCore& slice, wire::Path& path) noexcept;
    // Looks for it where it may be now: it has not answered.
    void look_again(Connection& connection) noexcept;
    // What a device has asked for.
    void set_neighbour(const Gid& gid, const std::optional<wire::Mac>& mac, std::uint16_t vlan = 0,
                       std::uint64_t device = 0);
    // What is to be found out, each once for each slice; signalled when there is something, and
    // when a neighbour is set while there is. Of a device not more than room(device) says.
    template <typename Room>
    std::vector<Unknown> take_unknown(Room&& room);
    std::vector<Unknown> take_unknown() {
        return take_unknown([](std::uint64_t) { return Questions::most; });
    }
    int unknown_fd() const noexcept { return unknown_signal_.fd(); }

    // What packets cost, and their copies: what it does at a time ends as a slice's turn does.
    void spend(std::uint64_t bytes, std::uint64_t operations) noexcept {
        cost_ += bytes + operations * Account::operation_cost;
    }
    // So many pages that had to be made for it, too, by packets that others have sent the slice.
    void bill_holes(SliceCore& slice, HoleCount& holes) noexcept;
    bool in_turn() const noexcept;

    // Takes some packets from the network, and answers. Returns whether there were any.
    bool serve() noexcept;
    // The thread that uses it has slept.
    void woken() noexcept { uplink_->woken(); }
    void expire(Clock::time_point now) noexcept;
    // Before sleep: nobody is woken for what the peer has answered meanwhile.
    void settle_timers() noexcept;
    // When expire() has something to do.
    Clock::time_point deadline() const noexcept;
    // The packet is of no use, and says so where it was meant to go: at a QP, at a device, or at
    // the uplink if there is none of these.
    void drop(const wire::Packet& packet, vrdma_counter why) noexcept;
    // What no device has counted.
    const vrdma_counters& unclaimed() const noexcept { return unclaimed_; }

    // Packets have arrived, or wait to leave.
    bool pending() const noexcept;

  private:
    enum class Origin : std::uint8_t { network, here };

    bool receive_some() noexcept;
    void answer_next(RunQueue& queue) noexcept;
    bool turn_around() noexcept;
    bool answer_some() noexcept;
    std::span<std::byte> room_for(const wire::Path& path) const noexcept;
    bool has_room(const Connection& connection) const noexcept;
    bool has_room_to_offer() const noexcept;
    void offer_room() noexcept;
    // False if there is more to do for it, which is one to a group.
    bool take(std::span<const std::byte> frame, Origin origin) noexcept;
    void dispatch(const wire::Packet& packet, Origin origin) noexcept;
    void receive_connected(QueuePair& qp, const wire::Packet& packet, Origin origin) noexcept;
    void receive_by_its_way(Connection& connection, const wire::Packet& packet,
                            bool awaited) noexcept;
    void receive_from_peer(Connection& connection, const wire::Packet& packet) noexcept;
    bool is_forged(const wire::Path& path) const noexcept;
    SliceCore* find_slice(const wire::Packet& packet) const noexcept;
    bool has_target(const wire::Path& path) const noexcept;
    void ask_for(Questions& questions, const wire::Path& path) noexcept;
    void offer_targets() noexcept;

    Engine& engine_;
    std::unique_ptr<wire::Uplink> uplink_;
    Turnaround turnaround_;
    // The control thread, which alone has them changed, reads them too.
    std::uint32_t max_mtu_;
    bool up_ = true;
    std::uint32_t mbps_ = 0;
    struct Macs {
        wire::Mac first;
        wire::Mac now;
    };
    std::optional<Macs> macs_;
    wire::Priorities priorities_;
    bool unflushed_ = false;
    std::array<std::byte, wire::max_frame_size> too_long_;
    List<RunQueue, &RunQueue::answering> answering_;
    std::uint64_t cost_ = 0;
    std::uint64_t served_join_ = 0; // of the frame that arrived, to a group: who had it last
    List<Connection, &Connection::awaits_room> awaits_room_;
    List<Connection, &Connection::awaits_target> awaits_target_;
    Timers<Connection> timers_;
    Timers<Pacing> paced_;
    std::size_t targets_to_offer_ = 0; // to so many of those that await one
    NeighbourCache neighbours_;
    List<Questions, &Questions::asked> asking_;
    EventFd unknown_signal_;
    vrdma_counters unclaimed_{};
};

template <typename Room>
std::vector<Unknown> Port::take_unknown(Room&& room) {
    constexpr std::size_t at_a_time = 64;
    constexpr std::size_t of_each = 8;
    std::vector<Unknown> taken;
    taken.reserve(at_a_time);
    unknown_signal_.drain();
    for (std::size_t slices = asking_.size(); slices > 0 && taken.size() < at_a_time; --slices) {
        Questions& questions = *asking_.pop_front();
        std::size_t count = std::min({of_each, room(questions.device), at_a_time - taken.size()});
        for (; count > 0 && !questions.unknown.empty(); --count) {
            taken.push_back(questions.unknown.front());
            questions.unknown.pop_front();
        }
        if (!questions.unknown.empty()) {
            asking_.push_back(questions);
        }
    }
    if (!taken.empty() && !asking_.empty()) {
        unknown_signal_.signal();
    }
    return taken;
}

} // namespace roce
} // namespace vrdma::hca::soft
