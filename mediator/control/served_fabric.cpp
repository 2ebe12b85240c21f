// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/control/served_fabric.h"

#include <algorithm>
#include <cstdlib>
#include <set>

#include "mediator/base/errno.h"
#include "mediator/base/gid_text.h"
#include "mediator/helper/launch.h"
#include "mediator/verbs/gid.h"

namespace vrdma::control {
namespace {

using hca::soft::GidKey;
using wire::fabric::FabricUplink;

// Returns the same MAC for a host each time, and different ones for different hosts.
wire::Mac mac_of_host(const std::string& host) {
    return verbs::derived_mac({reinterpret_cast<const std::uint8_t*>(host.data()), host.size()});
}

tl::expected<UniqueFd, std::string> start_helper(const std::string& name,
                                                 const std::string& forbidden) {
    const std::string program = helper::program_path(name);
    auto launched = helper::launch(program, forbidden);
    if (!launched) {
        return tl::unexpected{program + ": " + describe(launched.error())};
    }
    return std::move(launched->socket);
}

} // namespace

// Each layer of a layered provider ("verbs;ofi_rxm") is a provider itself.
tl::expected<void, std::string> load_providers_of(const std::vector<FabricOptions>& fabrics) {
    if (fabrics.empty()) {
        return {};
    }
    std::string names;
    for (const FabricOptions& fabric : fabrics) {
        names += (names.empty() ? "" : ",") + fabric.provider;
    }
    std::ranges::replace(names, ';', ',');
    constexpr int keep_what_is_set = 0;
    ::setenv("FI_PROVIDER", names.c_str(), keep_what_is_set);
    if (const auto& loaded = wire::fabric::libfabric(); !loaded) {
        return tl::unexpected{loaded.error()};
    }
    return {};
}

tl::expected<std::vector<FabricHelpers>, std::string> start_helpers(
    const std::vector<FabricOptions>& fabrics, const std::string& forbidden) {
    std::vector<FabricHelpers> helpers;
    for (const FabricOptions& fabric : fabrics) {
        auto handshakes = start_helper("vrdma-handshake", forbidden);
        auto directory = fabric.directory ? start_helper("vrdma-directory", forbidden)
                                          : tl::expected<UniqueFd, std::string>{};
        if (!handshakes || !directory) {
            return tl::unexpected{!handshakes ? handshakes.error() : directory.error()};
        }
        helpers.push_back({std::move(*handshakes), std::move(*directory)});
    }
    return helpers;
}

tl::expected<std::unique_ptr<ServedFabric>, std::string> ServedFabric::open(
    const FabricOptions& fabric, FabricHelpers helpers, hca::soft::SoftHca& hca, EventLoop& loop) {
    auto handshakes =
        wire::fabric::Handshakes::open("fabric " + fabric.name, std::move(helpers.handshakes),
                                       {fabric.credentials, fabric.host}, loop);
    if (!handshakes) {
        return tl::unexpected{handshakes.error()};
    }
    std::unique_ptr<ServedFabric> served{new ServedFabric{fabric, hca}};
    if (const auto serves = served->serve(fabric, std::move(*handshakes), loop); !serves) {
        return tl::unexpected{describe(serves.error())};
    }
    for (unsigned number = 0; number < fabric.peers.size(); ++number) {
        served->add(number, fabric.peers[number]);
    }
    if (fabric.directory) {
        if (const auto opened = served->open_directory(fabric, std::move(helpers.directory), loop);
            !opened) {
            return tl::unexpected{describe(opened.error())};
        }
    }
    return served;
}

ServedFabric::ServedFabric(const FabricOptions& fabric, hca::soft::SoftHca& hca)
    : name_{fabric.name},
      provider_{fabric.provider},
      mac_{mac_of_host(fabric.host)},
      hca_{hca},
      log_{"fabric " + fabric.name} {}

std::vector<ServedFabric::Peer> ServedFabric::peers() const {
    std::vector<Peer> peers;
    for (const auto& [number, options, up] : connector_->peers()) {
        peers.push_back({options, up, owners_.claims_of(number)});
    }
    return peers;
}

Result<> ServedFabric::serve(const FabricOptions& fabric,
                             std::unique_ptr<wire::fabric::Handshakes> handshakes,
                             EventLoop& loop) {
    auto handover = wire::fabric::Handover::create();
    if (!handover) {
        return fail(handover.error());
    }
    auto frames = FabricUplink::create(*handover);
    if (!frames) {
        return fail(frames.error());
    }
    uplink_ = frames->get();
    if (const auto added = hca_.add_uplink(name_, std::move(*frames), this); !added) {
        return added;
    }
    int unknown_fd = -1;
    hca_.with_port(name_, [&](auto& port) { unknown_fd = port.unknown_fd(); });
    auto watch = loop.watch(unknown_fd, [this](std::uint32_t) { answer_unknown(); });
    if (!watch) {
        return fail(watch.error());
    }
    unknown_ = std::move(*watch);
    auto connector =
        wire::fabric::Connector::create({fabric.name, fabric.host, fabric.listen, fabric.provider},
                                        loop, std::move(*handover), std::move(handshakes));
    if (!connector) {
        return fail(connector.error());
    }
    connector_ = std::move(*connector);
    return {};
}

Result<> ServedFabric::open_directory(const FabricOptions& fabric, UniqueFd process,
                                      EventLoop& loop) {
    auto opened =
        DirectoryPeers::open(fabric, std::move(process), *connector_, loop,
                             [this](unsigned peer, const Claims& claims) { claim(peer, claims); });
    if (!opened) {
        return fail(opened.error());
    }
    directory_ = std::move(*opened);
    return {};
}

void ServedFabric::add(unsigned number, const FabricPeer& peer) {
    Claims claims;
    for (const wire::Gid& gid : peer.gids) {
        claims[gid] = Owners::always;
    }
    connector_->add(number, {peer.name, peer.address});
    claim(number, claims);
}

// QPs that send to an address whose owner changes look for its MAC again.
void ServedFabric::claim(unsigned peer, const Claims& claims) {
    std::set<unsigned> losers;
    std::map<unsigned, std::vector<wire::Gid>> gids;
    const auto [changes, added] = owners_.set(peer, claims);
    tell_contested(peer, added);
    for (const Owners::Change& change : changes) {
        losers.insert(change.from.value_or(FabricUplink::nobody));
        for (const auto& concerned : {change.from, change.to}) {
            if (concerned) {
                gids.try_emplace(*concerned, owners_.gids_of(*concerned));
            }
        }
    }
    hca_.with_port(name_, [&](auto& /*port*/) {
        for (auto& [number, list] : gids) {
            uplink_->swap_gids(number, list);
        }
        for (const unsigned number : losers) {
            uplink_->renew_mac_of(number);
        }
    });
}

// Two hosts also claim an address for a moment while a guest moves.
void ServedFabric::tell_contested(unsigned peer, const std::vector<wire::Gid>& gids) {
    for (const wire::Gid& gid : gids) {
        if (owners_.contested(gid)) {
            log_.info("{} is claimed by {}, and by another host: {} has it", gid_text(gid),
                      connector_->name_of(peer), connector_->name_of(*owners_.owner(gid)));
        } else if (directory_ != nullptr && directory_->has(gid)) {
            log_.info("{} is claimed by {}, and by a device here", gid_text(gid),
                      connector_->name_of(peer));
        }
    }
}

Result<> ServedFabric::add(const GidKey& gid, const wire::Mac& /*mac*/) {
    if (owners_.is_fixed(gid.gid)) {
        return fail(std::errc::address_in_use);
    }
    if (directory_ != nullptr) {
        directory_->add(gid.gid);
    }
    return {};
}

void ServedFabric::remove(const GidKey& gid, const wire::Mac& /*mac*/) {
    if (directory_ != nullptr) {
        directory_->remove(gid.gid);
    }
}

// For an address that no peer has, the answer is a MAC that no peer has. Frames to it are lost.
void ServedFabric::answer_unknown() {
    hca_.with_port(name_, [&](auto& port) {
        for (const auto& unknown : port.take_unknown()) {
            const auto owner = owners_.owner(unknown.target);
            port.set_neighbour(unknown.target,
                               uplink_->present_mac_of(owner.value_or(FabricUplink::nobody)),
                               unknown.vlan, unknown.device);
        }
    });
}

} // namespace vrdma::control
