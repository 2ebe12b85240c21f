// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The network as slices and QPs see it. transport/roce implements it, and stands above them.
//
// A slice that is bound to an uplink is a member of the uplink's port. Each of its connected QPs
// has a connection there. It is called on the poller's thread. The control thread also calls
// connect() and connection_cost(), and reads the link's state.
#pragma once

#include <memory>
#include <optional>

#include "mediator/hca/slice.h"
#include "mediator/hca/soft/config.h"
#include "mediator/hca/soft/memory/guest_buffer.h"
#include "mediator/hca/soft/memory/network_region.h"
#include "mediator/hca/soft/slice/turn.h"

namespace vrdma::hca::soft {

struct Ack;
struct QueuePair;
struct Request;
struct Route;
class SliceCore;

// The target of datagrams as the network knows it, where hardware sends them.
class NetworkTarget {
  public:
    NetworkTarget() = default;
    NetworkTarget(const NetworkTarget&) = delete;
    NetworkTarget& operator=(const NetworkTarget&) = delete;
    virtual ~NetworkTarget() = default;
};

// The connection of a QP to a peer on the network.
class NetworkConnection {
  public:
    NetworkConnection() = default;
    NetworkConnection(const NetworkConnection&) = delete;
    NetworkConnection& operator=(const NetworkConnection&) = delete;
    virtual ~NetworkConnection() = default;

    // Finds out where the peer is, if the routes have changed and no messages are outstanding.
    virtual void locate_peer() noexcept = 0;
    // Whether the QP's messages leave this host, as locate_peer() found out.
    bool leaves_host() const noexcept { return leaves_host_; }
    // The QP's turn, if its messages do.
    virtual Turn send() noexcept = 0;
    // Whether the QP has failed, but earlier requests of its peer are still answered.
    virtual bool is_ending() const noexcept = 0;
    // Control thread: the QP is about to be modified so. Does what takes time. If the QP then is
    // not modified, it is told of an end by stop().
    virtual Result<> prepare(const vrdma_qp_attr& /*attr*/) { return {}; }
    // Whether the QP's receive WQEs are taken before messages for them arrive. It is then told when
    // there may be some.
    bool takes_receives_early() const noexcept { return takes_receives_early_; }
    virtual void look_for_receives() noexcept {}
    // Whether packets of that enum ibv_mtu fit the uplink.
    virtual bool fits(std::uint8_t path_mtu) const noexcept = 0;

    // The QP enters RTR, RTS, or a state in which it neither sends nor receives.
    virtual void start_receiving() noexcept = 0;
    virtual void start_sending() noexcept = 0;
    virtual void stop() noexcept = 0;
    // The slice is frozen. Packets that are not acknowledged are sent again when it is thawed.
    virtual void pause() noexcept = 0;
    virtual void resume() noexcept = 0;
    // See Slice::let_go(). The connection is paused.
    virtual void let_go() noexcept {}

    // The version of what save() returns.
    static constexpr std::uint32_t state_version = 1;
    // See Slice::save_connection(). The connection must be paused.
    virtual std::vector<std::byte> save() const = 0;
    // Called after the queue pair's own state was restored. EINVAL for a state that save() never
    // returns, and if the connection's packets do not fit this uplink.
    virtual Result<> restore(std::span<const std::byte> state) = 0;

  protected:
    bool leaves_host_ = false;
    bool takes_receives_early_ = false;
};

// The membership of a slice in its port. The control thread makes these calls, which are for ports
// whose packets are made by hardware.
class NetworkMember {
  public:
    NetworkMember() = default;
    NetworkMember(const NetworkMember&) = delete;
    NetworkMember& operator=(const NetworkMember&) = delete;
    virtual ~NetworkMember() = default;

    // See Names. `pages` has the bytes of the region that is to be registered, in that memory.
    virtual bool chooses_names() const noexcept { return false; }
    virtual Result<std::optional<Qpn>> name_qp(const QpSpec& /*spec*/) { return std::nullopt; }
    virtual Result<std::optional<Key>> name_region(const MrSpec& /*spec*/,
                                                   const GuestBuffer& /*pages*/,
                                                   GuestMemory& /*memory*/) {
        return std::nullopt;
    }
    // Returns nullptr if the network need not know the region.
    virtual Result<std::unique_ptr<NetworkRegion>> register_region(const MrSpec& /*spec*/,
                                                                   const GuestBuffer& /*pages*/,
                                                                   GuestMemory& /*memory*/) {
        return nullptr;
    }
    // The connections have been let go. Whoever tracks which pages are written knows afterwards of
    // those that hardware may have written.
    virtual void note_writes() {}
    // The guest has lost this memory. Afterwards, hardware does not touch it.
    virtual void revoke(Iova /*first*/, std::uint64_t /*length*/) {}
    // Returns nullptr if the network need not know the target.
    virtual Result<std::unique_ptr<NetworkTarget>> find_target(const SliceCore& /*slice*/,
                                                               const AhSpec& /*spec*/) {
        return nullptr;
    }
};

class NetworkPort {
  public:
    explicit NetworkPort(std::uint32_t max_mtu) noexcept : max_mtu_{max_mtu} {}
    NetworkPort(const NetworkPort&) = delete;
    NetworkPort& operator=(const NetworkPort&) = delete;
    virtual ~NetworkPort() = default;

    // The largest enum ibv_mtu, in bytes, whose packets fit.
    std::uint32_t max_mtu() const noexcept { return max_mtu_; }
    virtual HardwareLimits limits() const { return {}; }
    // Whether the uplink has a carrier. Packets sent without one are lost, and retransmitted like
    // other lost packets.
    bool up() const noexcept { return up_; }
    // The uplink's speed in Mb/s, or its last speed with a carrier. 0: unknown.
    std::uint32_t mbps() const noexcept { return mbps_; }
    // The uplink has changed: its carrier, its MTU, or its speed. A speed of 0 is ignored.
    virtual void set_link(bool up, std::uint32_t mbps) noexcept = 0;

    // A slice joins, given by the same number for the same device, and leaves.
    virtual std::unique_ptr<NetworkMember> join(std::uint64_t device) = 0;
    virtual void leave(NetworkMember& member) noexcept = 0;
    // Control thread: returns nullptr for a QP that needs none.
    virtual Result<std::unique_ptr<NetworkConnection>> connect(QueuePair& qp,
                                                               const QpSpec& spec) = 0;
    // Upper bound of a connection's memory.
    virtual std::uint64_t connection_cost() const noexcept = 0;
    // Makes room for the timers of so many connections.
    virtual void reserve(std::size_t connections) = 0;

    // ok: the datagram was sent.
    virtual Ack send_datagram(QueuePair& qp, const Request& request,
                              const Route& route) noexcept = 0;

    // Takes some packets from the network, and answers. Returns whether there were any.
    virtual bool serve() noexcept = 0;
    // Whether packets have arrived, or wait to leave.
    virtual bool pending() const noexcept = 0;
    virtual void expire(Clock::time_point now) noexcept = 0;
    // When expire() has something to do.
    virtual Clock::time_point deadline() const noexcept = 0;
    // Called before sleep. The poller is then not woken for messages that the peer has answered.
    virtual void settle_timers() noexcept = 0;
    // The poller has slept.
    virtual void woken() noexcept = 0;

  protected:
    // Only calls of the control thread change these. It reads them, too.
    std::uint32_t max_mtu_;
    bool up_ = true;
    std::uint32_t mbps_ = 0;
};

} // namespace vrdma::hca::soft
