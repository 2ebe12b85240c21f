// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The port of an engine's slices to a network by the host's own HCA (hca/host). Each QP of a guest
// has one there. Work that is posted to the one is posted to the other, and so are completions. The
// HCA reads and writes the guests' memory itself. Messages between slices of this host do not come
// here.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "mediator/base/log.h"
#include "mediator/hca/soft/common/list.h"
#include "mediator/hca/soft/slice/network.h"
#include "mediator/hca/soft/transport/offload/completions.h"

namespace vrdma::hca::soft {

class Engine;

} // namespace vrdma::hca::soft

namespace vrdma::hca::soft::offload {

// What has work posted at the HCA, and learns of its completions.
class Poster {
  public:
    // `sequence`: the number that the work was posted with.
    virtual void complete(const ibv_wc& wc, bool receive, std::uint16_t sequence) noexcept = 0;
    // The HCA reports an event of its QP.
    virtual void tell(ibv_event_type event) noexcept = 0;
    virtual Qpn number() const noexcept = 0;
    // Takes receives that the guest may have posted.
    virtual void look() noexcept {}

    ListHook<Poster> looks;

  protected:
    ~Poster() = default;
};

class Port final : public NetworkPort {
  public:
    // `name` is that of the uplink, for the log.
    Port(Engine& engine, const std::string& name, host::SharedDevice device, host::Channel channel,
         std::uint32_t max_mtu);

    Engine& engine() const noexcept { return engine_; }
    DeviceLog& log() noexcept { return log_; }
    // A line of the log about the HCA.
    void complain(const char* what) noexcept;
    const host::SharedDevice& device() const noexcept { return device_; }
    Completions& completions() noexcept { return completions_; }

    HardwareLimits limits() const override;
    void set_link(bool up, std::uint32_t mbps) noexcept override;
    std::unique_ptr<NetworkMember> join(std::uint64_t device) override;
    void leave(NetworkMember& /*member*/) noexcept override {}
    Result<std::unique_ptr<NetworkConnection>> connect(QueuePair& qp, const QpSpec& spec) override;
    std::uint64_t connection_cost() const noexcept override;
    void reserve(std::size_t connections) override;
    Ack send_datagram(QueuePair& qp, const Request& request, const Route& route) noexcept override;

    bool serve() noexcept override;
    bool pending() const noexcept override { return !looking.empty(); }
    void expire(Clock::time_point /*now*/) noexcept override {}
    Clock::time_point deadline() const noexcept override;
    void settle_timers() noexcept override;
    void woken() noexcept override;

    // Poller: from now on, a poster learns of completions, by the number that this returns. Names
    // of work contain it.
    std::uint32_t enter(Poster& poster) noexcept;
    void leave(std::uint32_t place) noexcept;
    std::uint64_t name(std::uint32_t place, bool receive, std::uint16_t sequence) const noexcept;
    // Takes all completions of a CQ that are there.
    void drain(const Completions::Share& share) noexcept;
    // An event that the HCA reports for a QP.
    void tell(ibv_event_type event, Qpn qpn) noexcept;
    // The HCA does not work any more: all that is connected fails.
    void fail_all() noexcept;

    // Those that the next round looks at, because the guest may have posted receives.
    List<Poster, &Poster::looks> looking;

  private:
    struct Place {
        Poster* poster = nullptr;
        std::uint16_t generation = 0;
    };

    void take(const ibv_wc& wc) noexcept;
    bool look_all() noexcept;

    Engine& engine_;
    const host::SharedDevice device_;
    Completions completions_;
    DeviceLog log_;
    std::vector<Place> places_;
    std::vector<std::uint32_t> free_;
    bool restless_ = false; // something completed as the poller went to sleep
    bool failed_ = false;
};

} // namespace vrdma::hca::soft::offload
