// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/control/served_uplink.h"

#include <spdlog/spdlog.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <utility>

#include "mediator/wire/derived_mac.h"
#include "mediator/wire/uplink/host_addresses.h"
#include "mediator/wire/uplink/link.h"
#include "mediator/wire/uplink/transport.h"

namespace vrdma::control {

namespace {

using hca::Gid;
using hca::soft::GidKey;
using hca::soft::SoftHca;
namespace roce = hca::soft::roce;

constexpr int nowhere = 0; // no interface has that index

wire::SteeredAddress steered(const GidKey& gid, const wire::Mac& mac) {
    return {.gid = gid.gid,
            .mac = mac,
            .type = static_cast<wire::Encapsulation>(gid.type),
            .vlan = gid.vlan};
}

} // namespace

// If this host cannot steer, Steering::create() warns of it. The uplink is served nevertheless,
// because its devices' packets arrive all the same.
tl::expected<ServedUplink::Attachment, std::string> ServedUplink::attach(
    const UplinkOptions& uplink, EventLoop& loop) {
    const auto link = wire::read_link(uplink.interface);
    if (!link) {
        return tl::unexpected{link.error() == std::errc::not_supported
                                  ? std::string{"it is no Ethernet interface"}
                                  : describe(link.error())};
    }
    auto neighbours = wire::Neighbours::create(loop, uplink.interface);
    if (!neighbours) {
        return tl::unexpected{describe(neighbours.error())};
    }
    auto steering = wire::Steering::create(uplink.interface);
    auto frames =
        wire::open_uplink(uplink.interface, uplink.transport, steering ? steering->get() : nullptr);
    if (!frames) {
        return tl::unexpected{frames.error()};
    }
    return Attachment{*link, steering ? std::move(*steering) : nullptr, std::move(*neighbours),
                      std::move(*frames)};
}

tl::expected<std::unique_ptr<ServedUplink>, std::string> ServedUplink::open(
    const UplinkOptions& uplink, SoftHca& hca, EventLoop& loop) {
    auto at = attach(uplink, loop);
    if (!at) {
        return tl::unexpected{at.error()};
    }
    std::unique_ptr<ServedUplink> served{new ServedUplink{uplink, std::move(*at), hca, loop}};
    if (const auto serves = served->serve(); !serves) {
        return tl::unexpected{describe(serves.error())};
    }
    return served;
}

ServedUplink::ServedUplink(const UplinkOptions& uplink, Attachment at, SoftHca& hca,
                           EventLoop& loop)
    : uplink_{uplink},
      hca_{hca},
      loop_{loop},
      log_{"uplink " + uplink.name},
      at_{std::move(at)},
      mac_{at_.link.mac} {}

Result<> ServedUplink::serve() {
    if (const auto added = hca_.add_uplink(name(), std::move(at_.frames), this); !added) {
        return added;
    }
    int unknown_fd = -1;
    hca_.with_port(name(), [&](auto& port) {
        port.set_priorities(uplink_.priorities);
        unknown_fd = port.unknown_fd();
    });
    auto watch = loop_.watch(unknown_fd, [this](std::uint32_t) { find_unknown(); });
    if (!watch) {
        return fail(watch.error());
    }
    unknown_ = std::move(*watch);
    tick_ = UniqueFd{::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)};
    if (!tick_) {
        return fail_errno();
    }
    auto ticks = loop_.watch(tick_.get(), [this](std::uint32_t) { tell_refused(); });
    if (!ticks) {
        return fail(ticks.error());
    }
    ticks_ = std::move(*ticks);
    return watch_link();
}

Result<> ServedUplink::watch_link() {
    auto watch = wire::LinkWatch::create(
        loop_, uplink_.interface, [this](const Result<wire::Link>& link) { link_changed(link); });
    if (!watch) {
        return fail(watch.error());
    }
    link_ = std::move(*watch);
    link_changed(wire::read_link(uplink_.interface)); // it may have changed before the watch began
    return {};
}

void ServedUplink::end() {
    link_.reset();
    ticks_ = {};
    unknown_ = {};
    searches_.clear();
    hca_.remove_uplink(name());
}

// QPs stay as they are. Their packets are lost while the link is down, and their retry budgets
// decide.
void ServedUplink::link_changed(const Result<wire::Link>& link) {
    if (!link) {
        at_.link.index = nowhere;
    } else if (link->index != at_.link.index) {
        if (const auto again = attach_again(); !again) {
            spdlog::warn("uplink {}: the new interface {} cannot be used: {}", name(),
                         uplink_.interface, again.error());
        }
    }
    const bool up = link && link->index == at_.link.index && link->up;
    if (up != up_) {
        up_ = up;
        spdlog::warn("uplink {}: {} is {}", name(), uplink_.interface, up ? "up" : "down");
    }
    if (link) {
        hca_.with_port(name(), [&](auto& port) { port.set_macs(mac_, link->mac); });
    }
    mbps_ = up ? link->mbps : 0;
    hca_.set_link(name(), up, mbps_);
}

// Is called when the interface was made anew.
tl::expected<void, std::string> ServedUplink::attach_again() {
    at_.link.index = nowhere; // until all parts are attached
    auto again = attach(uplink_, loop_);
    if (!again) {
        return tl::unexpected{again.error()};
    }
    if (const auto renewed = hca_.renew_uplink(name(), std::move(again->frames)); !renewed) {
        return tl::unexpected{describe(renewed.error())};
    }
    searches_.clear(); // its port asks the new neighbours
    places_.clear();
    at_ = std::move(*again);
    steer_again();
    find_unknown();
    spdlog::info("uplink {}: interface {} was created again", name(), uplink_.interface);
    return {};
}

// Peers learn the MAC of a device that has the interface's MAC from the host's stack. After the
// interface was made anew, the stack tells them the new interface's MAC.
std::vector<wire::Mac> ServedUplink::known_by(const wire::Mac& mac) const {
    return mac == mac_ && mac != at_.link.mac ? std::vector{mac, at_.link.mac} : std::vector{mac};
}

Result<> ServedUplink::steer(const GidKey& gid, const wire::Mac& mac) {
    if (at_.steering == nullptr) {
        return {};
    }
    for (const wire::Mac& each : known_by(mac)) {
        if (const auto added = at_.steering->add(steered(gid, each)); !added) {
            unsteer(gid, mac);
            return added;
        }
    }
    return {};
}

void ServedUplink::unsteer(const GidKey& gid, const wire::Mac& mac) {
    if (at_.steering == nullptr) {
        return;
    }
    for (const wire::Mac& each : known_by(mac)) {
        at_.steering->remove(steered(gid, each));
    }
}

void ServedUplink::steer_again() {
    for (const auto& [address, times] : addresses_) {
        const auto& [gid, type, vlan, mac] = address;
        if (const auto added = steer({gid, type, vlan}, mac); !added) {
            spdlog::warn("uplink {}: packets to an address of a device reach this host as well: {}",
                         name(), describe(added.error()));
        }
    }
    for (const wire::Mac& group : groups_) {
        if (at_.steering != nullptr && !at_.steering->join(group)) {
            spdlog::warn("uplink {}: packets to a multicast group may not reach it", name());
        }
    }
}

// Peers find the host at its addresses. So only a device that has the host's MAC can have them.
bool ServedUplink::is_hosts(const GidKey& gid, const wire::Mac& mac) const {
    return mac != mac_ && mac != at_.link.mac && wire::is_hosts_own(gid.gid);
}

Result<> ServedUplink::add(const GidKey& gid, const wire::Mac& mac) {
    if (gid.vlan != 0 && !uplink_.vlans.test(gid.vlan)) {
        return fail(std::errc::permission_denied);
    }
    if (is_hosts(gid, mac)) {
        log_.warn("a device asks for an address of this host");
        return fail(std::errc::address_in_use);
    }
    unsigned& times = addresses_[{gid.gid, gid.type, gid.vlan, mac}];
    if (times == 0) {
        if (const auto added = steer(gid, mac); !added) {
            addresses_.erase({gid.gid, gid.type, gid.vlan, mac});
            return added;
        }
    }
    ++times;
    return {};
}

void ServedUplink::remove(const GidKey& gid, const wire::Mac& mac) {
    const auto address = addresses_.find({gid.gid, gid.type, gid.vlan, mac});
    if (address == addresses_.end() || --address->second != 0) {
        return;
    }
    addresses_.erase(address);
    unsteer(gid, mac);
}

// A group's MAC is derived from its address (RFC 1112, 6.4; RFC 2464, 7).
Result<> ServedUplink::join(const Gid& group) {
    const auto mac = wire::derived_mac(group);
    if (!mac) {
        return {};
    }
    if (at_.steering != nullptr) {
        if (const auto joined = at_.steering->join(*mac); !joined) {
            return joined;
        }
    }
    groups_.insert(*mac);
    return {};
}

void ServedUplink::leave(const Gid& group) {
    const auto mac = wire::derived_mac(group);
    const auto found = mac ? groups_.find(*mac) : groups_.end();
    if (found == groups_.end()) {
        return;
    }
    groups_.erase(found);
    if (at_.steering != nullptr) {
        at_.steering->leave(*mac);
    }
}

void ServedUplink::find_unknown() {
    std::vector<roce::Unknown> all;
    hca_.with_port(name(), [&](auto& port) {
        all = port.take_unknown([this](std::uint64_t device) { return places_.room(device); });
    });
    for (const auto& unknown : all) {
        find(unknown);
    }
}

// resolve() may answer before it returns, if the answer is known already. The host's tables do not
// describe a guest's VLANs; the guest's kernel finds the neighbours there. Each device's search
// takes a place of its own, even if two devices look for the same target. A device that gets no
// place asks again.
void ServedUplink::find(const roce::Unknown& unknown) {
    const Search search{unknown.device, {unknown.target, unknown.vlan}};
    if (searches_.contains(search) || places_.room(unknown.device) == 0) {
        return;
    }
    if (const auto lost = places_.add(search.first, search.second)) {
        searches_.erase(*lost);
    }
    searches_.try_emplace(search);
    if (unknown.vlan != 0) {
        return found(search, fail(std::errc::host_unreachable));
    }
    auto question = at_.neighbours->resolve(
        unknown.source, unknown.target,
        [this, search](const Result<wire::Mac>& mac) { found(search, mac); });
    if (const auto waits = searches_.find(search); waits != searches_.end()) {
        waits->second.question = std::move(question);
    }
}

// A device may ask at once again for a peer that is unreachable. So this answer is given at most
// once per second.
void ServedUplink::found(const Search& search, const Result<wire::Mac>& mac) {
    if (mac && !wire::is_group(*mac)) { // the MAC of a network's broadcast address is a group's
        return tell(search, *mac);
    }
    spdlog::debug("uplink {}: no way to a peer: {}", name(),
                  describe(mac ? std::errc::host_unreachable : mac.error()));
    searches_[search].nobody = true;
    if (!std::exchange(ticks_soon_, true)) {
        const itimerspec in_a_second{{}, {1, 0}};
        ::timerfd_settime(tick_.get(), 0, &in_a_second, nullptr);
    }
}

void ServedUplink::tell_refused() {
    std::uint64_t ticks = 0;
    (void)::read(tick_.get(), &ticks, sizeof(ticks));
    ticks_soon_ = false;
    std::vector<Search> refused;
    for (const auto& [search, asked] : searches_) {
        if (asked.nobody) {
            refused.push_back(search);
        }
    }
    for (const Search& search : refused) {
        tell(search, std::nullopt);
    }
}

void ServedUplink::tell(const Search& search, const std::optional<wire::Mac>& mac) {
    const auto& [device, target] = search;
    searches_.erase(search);
    places_.remove(device, target);
    hca_.with_port(name(), [&](auto& port) {
        port.set_neighbour(search.second.first, mac, search.second.second, search.first);
    });
}

} // namespace vrdma::control
