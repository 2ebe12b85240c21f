// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The port of an engine's slices to a network. It sends packets to an uplink, takes packets from
// it, and finds their receivers.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mediator/base/event_fd.h"
#include "mediator/hca/soft/common/list.h"
#include "mediator/hca/soft/common/timers.h"
#include "mediator/hca/soft/routing/routing_table.h"
#include "mediator/hca/soft/slice/network.h"
#include "mediator/hca/soft/transport/roce/connection.h"
#include "mediator/hca/soft/transport/roce/loopback_queue.h"
#include "mediator/hca/soft/transport/roce/member.h"
#include "mediator/hca/soft/transport/roce/neighbour_cache.h"
#include "mediator/hca/soft/transport/roce/questions.h"
#include "mediator/wire/packet.h"
#include "mediator/wire/packet_stream.h"
#include "mediator/wire/priorities.h"
#include "mediator/wire/uplink.h"

namespace vrdma::hca::soft {

class Engine;
class HoleCount;

} // namespace vrdma::hca::soft

namespace vrdma::hca::soft::roce {

// A packet that is being built. The payload is written in place, then the packet is sent.
struct Draft {
    std::span<std::byte> frame;
    std::span<std::byte> payload;
    bool special; // too long to be sent, or there are sniffers
};

class Port final : public NetworkPort {
  public:
    // `name` is that of the uplink, for the log.
    Port(Engine& engine, std::string name, std::unique_ptr<wire::Uplink> uplink,
         EventFd unknown_signal);
    Port(const Port&) = delete;
    Port& operator=(const Port&) = delete;
    ~Port() override;

    Engine& engine() const noexcept { return engine_; }
    // Exchanges its uplink for another one. The addresses of peers are asked for again.
    void renew(std::unique_ptr<wire::Uplink>& uplink);
    // The uplink's speed in bytes per second. An unknown speed is replaced by the usual one.
    std::uint64_t line_rate() const noexcept {
        constexpr std::uint64_t bytes_per_mbit = 125'000;
        return mbps_ != 0 ? mbps_ * bytes_per_mbit : ReactionPoint::usual_line_rate;
    }
    void set_link(bool up, std::uint32_t mbps) noexcept override;
    // Sets the interface's present Ethernet address, and its first one, which devices may have.
    // From then on, a device gets only frames to its own Ethernet address.
    void set_macs(const wire::Mac& first, const wire::Mac& now) noexcept { macs_ = {first, now}; }
    // The priorities of its packets. Until they are set, they have their defaults.
    const wire::Priorities& priorities() const noexcept { return priorities_; }
    void set_priorities(const wire::Priorities& priorities) noexcept;
    bool is_addressed(const SliceCore& slice, const wire::Packet& packet) const noexcept;
    bool is_addressed_to_group(const wire::Packet& packet) const noexcept;

    // Room for a packet with so much payload. Nothing while the network takes no more. A packet may
    // be too long for a frame, if frames were longer when its QP was connected. Such a packet is
    // lost when it is sent.
    std::optional<Draft> draft(const wire::Path& path, std::uint8_t opcode,
                               std::size_t payload_bytes) noexcept;
    // Sends it for the slice.
    void send(const SliceCore& slice, const Draft& draft, const wire::Path& path,
              const wire::Headers& headers) noexcept;

    // The number of copies of a frame that leave for that address; at least 1.
    std::size_t copies(const wire::Mac& target) const noexcept {
        return std::max<std::size_t>(1, uplink_->copies(target));
    }

    // The connection gets a turn when there is room again.
    void await_room(Connection& connection) noexcept;
    // The same when its peer's Ethernet address has become known.
    void await_target(Connection& connection) noexcept;
    // The same at the time `due`, also for its answers.
    void await_due(Connection& connection, Clock::time_point due) noexcept;
    // The connection has something to answer.
    void answer_soon(Connection& connection) noexcept;
    // expire() is called for the connection at its RTO deadline, or earlier.
    void set_timer(Connection& connection) noexcept;
    // The connection has nothing outstanding any more.
    void forget(Connection& connection) noexcept;

    std::unique_ptr<NetworkMember> join(std::uint64_t device) override;
    void leave(NetworkMember& member) noexcept override;
    Result<std::unique_ptr<NetworkConnection>> connect(QueuePair& qp, const QpSpec& spec) override;
    std::uint64_t connection_cost() const noexcept override;
    void reserve(std::size_t connections) override {
        timers_.reserve(connections);
        paced_.reserve(connections);
    }
    Ack send_datagram(QueuePair& qp, const Request& request, const Route& route) noexcept override;

    // Writes the Ethernet address of the path's target into the path, if it is not there. Returns
    // false while the address is not known. The control thread is then asked for it, as a question
    // of the slice.
    bool find_target(SliceCore& slice, wire::Path& path) noexcept;
    // The peer has not answered: looks up where it may be now.
    void look_again(Connection& connection) noexcept;
    // The same for several packets: the uplink may have lost them together.
    void note_silence() noexcept { uplink_->note_silence(); }
    // The answer to a device's question.
    void set_neighbour(const Gid& gid, const std::optional<wire::Mac>& mac, std::uint16_t vlan = 0,
                       std::uint64_t device = 0);
    // Takes questions for the control thread, each once per slice. unknown_fd() is signalled when
    // there are any, and when a neighbour is set while there are. At most room(device) questions of
    // a device are taken.
    template <typename Room>
    std::vector<Unknown> take_unknown(Room&& room);
    std::vector<Unknown> take_unknown() {
        return take_unknown([](std::uint64_t) { return Questions::most; });
    }
    int unknown_fd() const noexcept { return unknown_signal_.fd(); }

    // Charges the port's turn for packets and their copies. The turn ends as a slice's turn does.
    void spend(std::uint64_t bytes, std::uint64_t operations) noexcept {
        cost_ += bytes + operations * Account::operation_cost;
    }
    // Charges the port's turn and the slice for pages that had to be created because of packets
    // that others sent to the slice.
    void bill_holes(SliceCore& slice, HoleCount& holes) noexcept;
    bool in_turn() const noexcept;

    bool serve() noexcept override;
    void woken() noexcept override { uplink_->woken(); }
    void expire(Clock::time_point now) noexcept override;
    void settle_timers() noexcept override;
    Clock::time_point deadline() const noexcept override;
    bool pending() const noexcept override;
    // Drops the packet. It is counted at its QP, at its device, or at the uplink if there is
    // neither.
    void drop(const wire::Packet& packet, vrdma_counter why) noexcept;
    // Counters of what no device has counted.
    const vrdma_counters& unclaimed() const noexcept { return unclaimed_; }

  private:
    enum class Origin : std::uint8_t { network, here };

    enum class Sniffed : bool { no, yes };
    template <Sniffed sniffed>
    bool receive_some() noexcept;
    void sniff_arrival(std::span<const std::byte> frame) const noexcept;
    void sniff_arrival_of_group(std::span<const std::byte> frame, const Gid& group) const noexcept;
    bool send_specially(const SliceCore& slice, const Draft& draft, std::size_t bytes) noexcept;
    void answer_next(Member& member) noexcept;
    bool turn_around() noexcept;
    bool answer_some() noexcept;
    void note_sent(const wire::Path& path, std::uint8_t opcode) noexcept;
    void flush_in_time() noexcept;
    std::span<std::byte> room_for(const wire::Path& path) const noexcept;
    bool has_room(const Connection& connection) const noexcept;
    bool has_room_to_offer() const noexcept;
    void offer_room() noexcept;
    // Returns false if there is more to do for the frame, which is then to a group.
    bool take(std::span<const std::byte> frame, Origin origin) noexcept;
    bool take_packet(wire::Drop spoiled, const wire::Packet& packet, Origin origin) noexcept;
    bool take_next(std::span<const std::byte> frame) noexcept;
    void dispatch(const wire::Packet& packet, Origin origin) noexcept;
    void deliver(QueuePair& qp, const wire::Packet& packet, Origin origin) noexcept;
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
    const std::string name_;
    std::unique_ptr<wire::Uplink> uplink_;
    LoopbackQueue loopback_;
    struct Macs {
        wire::Mac first;
        wire::Mac now;
    };
    std::optional<Macs> macs_;
    wire::Priorities priorities_;
    bool unflushed_ = false;                // some frames are with the uplink
    bool grown_ = false;                    // some of them are of this round
    bool urgent_ = false;                   // a message ended, and its QP sends no other one
    bool ended_ = false;                    // the last frame ended a message
    const wire::Path* last_path_ = nullptr; // of the last frame; each connection has one
    std::array<std::byte, wire::max_frame_size> too_long_;
    List<Member, &Member::answering> answering_;
    std::uint64_t cost_ = 0;
    wire::PacketWriter writer_;
    wire::PacketReader reader_;
    // The QP that the last packet from the network was for. It is known only while packets are
    // received, as QPs are destroyed at other times.
    QueuePair* receiver_ = nullptr;
    std::uint64_t served_join_ = 0; // of a frame to a group: the slice that had it last
    List<Connection, &Connection::awaits_room> awaits_room_;
    List<Connection, &Connection::awaits_target> awaits_target_;
    Timers<Connection> timers_;
    Timers<Pacing> paced_;
    std::size_t targets_to_offer_ = 0; // number of waiting connections to wake
    NeighbourCache neighbours_;
    List<Questions, &Questions::asked> asking_;
    EventFd unknown_signal_;
    vrdma_counters unclaimed_{};
};

// The slice's port. All ports are of this transport.
inline Port& port_of(const SliceCore& slice) noexcept {
    return static_cast<Port&>(*slice.port());
}

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

} // namespace vrdma::hca::soft::roce
