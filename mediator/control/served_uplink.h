// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// An uplink of the soft HCA, and the control thread's work for it. It keeps packets to its devices'
// addresses from the host's stack, and answers its port's questions for Ethernet addresses. Its
// port goes up and down with the interface, also with a new interface of the same name.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "mediator/base/event_loop.h"
#include "mediator/base/holdings.h"
#include "mediator/base/log.h"
#include "mediator/control/config/config.h"
#include "mediator/hca/soft/soft_hca.h"
#include "mediator/wire/uplink/link_watch.h"
#include "mediator/wire/uplink/neighbours.h"
#include "mediator/wire/uplink/steering.h"

namespace vrdma::control {

class ServedUplink final : public hca::soft::AddressKeeper {
  public:
    // Adds the uplink to the HCA. Slices that are bound to it must not outlive what is returned.
    // The error is for people.
    static tl::expected<std::unique_ptr<ServedUplink>, std::string> open(
        const UplinkOptions& uplink, hca::soft::SoftHca& hca, EventLoop& loop);

    // Takes the uplink from the HCA, and ends the work for it. No slice may be bound to it.
    void end();

    const std::string& name() const { return uplink_.name; }
    const std::string& interface() const { return uplink_.interface; }
    const wire::Mac& mac() const { return mac_; } // the interface's
    bool up() const { return up_; }
    std::uint32_t mbps() const { return mbps_; } // 0: not known

    Result<> add(const hca::soft::GidKey& gid, const wire::Mac& mac) override;
    void remove(const hca::soft::GidKey& gid, const wire::Mac& mac) override;
    Result<> join(const hca::Gid& group) override;
    void leave(const hca::Gid& group) override;

  private:
    // The parts that belong to one interface, and not to a later one of the same name.
    struct Attachment {
        wire::Link link;
        std::unique_ptr<wire::Steering> steering; // nullptr if this host cannot steer
        std::unique_ptr<wire::Neighbours> neighbours;
        std::unique_ptr<wire::Uplink> frames; // until the HCA has it
    };
    static tl::expected<Attachment, std::string> attach(const UplinkOptions& uplink,
                                                        EventLoop& loop);

    ServedUplink(const UplinkOptions& uplink, Attachment at, hca::soft::SoftHca& hca,
                 EventLoop& loop);

    Result<> serve();
    Result<> watch_link();
    void link_changed(const Result<wire::Link>& link);
    tl::expected<void, std::string> attach_again();
    Result<> steer(const hca::soft::GidKey& gid, const wire::Mac& mac);
    void unsteer(const hca::soft::GidKey& gid, const wire::Mac& mac);
    void steer_again();
    bool is_hosts(const hca::soft::GidKey& gid, const wire::Mac& mac) const;
    std::vector<wire::Mac> known_by(const wire::Mac& mac) const;
    void find_unknown();
    void find(const hca::soft::roce::Unknown& unknown);
    using Target = std::pair<hca::Gid, std::uint16_t>; // the address, and its VLAN
    using Search = Holdings<Target>::Held;             // the device that searches, and its target
    struct Asked {
        wire::Neighbours::Question question;
        bool nobody = false; // no way to it: the port is told at the next tick
    };
    void found(const Search& search, const Result<wire::Mac>& mac);
    void tell(const Search& search, const std::optional<wire::Mac>& mac);
    void tell_refused();

    // An address of a device, which may have it from several functions and table entries.
    using Address = std::tuple<hca::Gid, std::uint8_t, std::uint16_t, wire::Mac>;

    const UplinkOptions uplink_;
    hca::soft::SoftHca& hca_;
    EventLoop& loop_;
    DeviceLog log_; // for events that guests cause
    Attachment at_;
    const wire::Mac mac_;                   // the first interface's, which devices may have
    std::map<Address, unsigned> addresses_; // how often each was added
    std::multiset<wire::Mac> groups_;       // the groups of slices, with repetition
    // Searches of a device at a time. More wait at the port. The kernel goes on asking for 3 s.
    static constexpr std::size_t searches_each = 32;
    Holdings<Target> places_{searches_each, wire::Neighbours::max_waiting};
    std::map<Search, Asked> searches_;
    UniqueFd tick_;
    bool ticks_soon_ = false;
    EventLoop::Watch unknown_;
    std::unique_ptr<wire::LinkWatch> link_;
    bool up_ = true;
    std::uint32_t mbps_ = 0;
    EventLoop::Watch ticks_;
};

} // namespace vrdma::control
