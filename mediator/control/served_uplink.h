// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// An uplink of the soft HCA, and what the control thread does for it: packets to its devices'
// addresses are kept from the host's stack, its port's questions for Ethernet addresses are
// answered, and its port goes up and down with the interface.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "mediator/base/event_loop.h"
#include "mediator/control/config.h"
#include "mediator/hca/soft/soft_hca.h"
#include "mediator/wire/uplink/link_watch.h"
#include "mediator/wire/uplink/neighbours.h"
#include "mediator/wire/uplink/steering.h"

namespace vrdma::control {

class ServedUplink final : public hca::soft::AddressKeeper {
  public:
    // The HCA has it from now on; its slices that are bound to it do not outlive what is returned.
    // The error is for people.
    static tl::expected<std::unique_ptr<ServedUplink>, std::string> open(const Uplink& uplink,
                                                                         hca::soft::SoftHca& hca,
                                                                         EventLoop& loop);

    const std::string& name() const { return name_; }
    const wire::Mac& mac() const { return mac_; } // the interface's

    Result<> add(const hca::soft::GidKey& gid, const wire::Mac& mac) override;
    void remove(const hca::soft::GidKey& gid, const wire::Mac& mac) override;

  private:
    ServedUplink(const Uplink& uplink, const wire::Link& link, hca::soft::SoftHca& hca,
                 std::unique_ptr<wire::Steering> steering,
                 std::unique_ptr<wire::Neighbours> neighbours);

    Result<> serve(std::unique_ptr<wire::Uplink> frames, EventLoop& loop);
    Result<> watch_link(EventLoop& loop);
    void link_changed(const Result<wire::Link>& link);
    void find_unknown();
    void find(const hca::soft::roce::Unknown& unknown);
    // Who is looked for, and in which VLAN.
    using Target = std::pair<hca::Gid, std::uint16_t>;
    void found(const Target& target, const Result<wire::Mac>& mac);
    void tell(const Target& target, const std::optional<wire::Mac>& mac);
    void tell_refused();

    // An address of a device, which may have it from several functions and table entries.
    using Address = std::tuple<hca::Gid, std::uint8_t, std::uint16_t, wire::Mac>;

    const std::string name_;
    const std::string interface_;
    const wire::Mac mac_;
    const int index_;   // the interface's; another of the same name is none of the uplink's
    const Vlans vlans_; // that guests may have addresses in
    hca::soft::SoftHca& hca_;
    const std::unique_ptr<wire::Steering> steering_; // or nullptr, if this host cannot
    const std::unique_ptr<wire::Neighbours> neighbours_;
    std::map<Address, unsigned> addresses_;                // how often each was added
    std::map<Target, wire::Neighbours::Question> waiting_; // for answers
    std::vector<Target> refused_; // whose port hears of it at the next tick
    UniqueFd tick_;
    EventLoop::Watch unknown_;
    std::unique_ptr<wire::LinkWatch> link_;
    bool up_ = true;
    EventLoop::Watch ticks_;
};

} // namespace vrdma::control
