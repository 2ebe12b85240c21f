// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/control/served_fabric.h"

#include <spdlog/spdlog.h>

#include "mediator/base/errno.h"
#include "mediator/verbs/gid.h"
#include "mediator/wire/fabric/fabric_uplink.h"

namespace vrdma::control {
namespace {

using hca::soft::GidKey;

// The same each time, and another for each host.
wire::Mac mac_of_host(const std::string& host) {
    return verbs::derived_mac({reinterpret_cast<const std::uint8_t*>(host.data()), host.size()});
}

tl::expected<wire::fabric::LinkOptions, std::string> link_options(const Fabric& fabric) {
    wire::fabric::LinkOptions options{fabric.name, fabric.host, fabric.listen, fabric.provider, {}};
    options.peers.reserve(fabric.peers.size());
    for (const FabricPeer& peer : fabric.peers) {
        auto key = wire::fabric::Key::load(peer.key_file);
        if (!key) {
            return tl::unexpected{key.error()};
        }
        options.peers.push_back({peer.name, peer.address, std::move(*key), peer.gids});
    }
    return options;
}

} // namespace

tl::expected<std::unique_ptr<ServedFabric>, std::string> ServedFabric::open(const Fabric& fabric,
                                                                            hca::soft::SoftHca& hca,
                                                                            EventLoop& loop) {
    auto options = link_options(fabric);
    if (!options) {
        return tl::unexpected{options.error()};
    }
    std::unique_ptr<ServedFabric> served{new ServedFabric{fabric, hca}};
    if (const auto serves = served->serve(std::move(*options), loop); !serves) {
        return tl::unexpected{describe(serves.error())};
    }
    return served;
}

ServedFabric::ServedFabric(const Fabric& fabric, hca::soft::SoftHca& hca)
    : name_{fabric.name}, mac_{mac_of_host(fabric.host)}, hca_{hca} {
    for (unsigned peer = 0; peer < fabric.peers.size(); ++peer) {
        for (const wire::Gid& gid : fabric.peers[peer].gids) {
            owners_[gid] = peer;
        }
    }
}

Result<> ServedFabric::serve(wire::fabric::LinkOptions options, EventLoop& loop) {
    auto handover = wire::fabric::Handover::create();
    if (!handover) {
        return fail(handover.error());
    }
    auto frames = wire::fabric::FabricUplink::create(*handover);
    if (!frames) {
        return fail(frames.error());
    }
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
    auto links = wire::fabric::Links::create(std::move(options), loop, std::move(*handover));
    if (!links) {
        return fail(links.error());
    }
    links_ = std::move(*links);
    return {};
}

Result<> ServedFabric::add(const GidKey& gid, const wire::Mac& /*mac*/) {
    if (owners_.contains(gid.gid)) {
        return fail(std::errc::address_in_use);
    }
    return {};
}

void ServedFabric::remove(const GidKey& /*gid*/, const wire::Mac& /*mac*/) {}

// Of an address that is no peer's the answer is a MAC that is no peer's, to which frames are lost.
void ServedFabric::answer_unknown() {
    constexpr unsigned nobody = wire::fabric::Handover::max_peers;
    hca_.with_port(name_, [&](auto& port) {
        for (const auto& unknown : port.take_unknown()) {
            const auto owner = owners_.find(unknown.target);
            port.set_neighbour(
                unknown.target,
                wire::fabric::mac_of(owner != owners_.end() ? owner->second : nobody));
        }
    });
}

} // namespace vrdma::control
