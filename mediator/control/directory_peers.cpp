// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/control/directory_peers.h"

#include <utility>

namespace vrdma::control {

using directory::Entry;
using directory::Hosts;

Result<std::unique_ptr<DirectoryPeers>> DirectoryPeers::open(const FabricOptions& fabric,
                                                             UniqueFd process,
                                                             wire::fabric::Connector& connector,
                                                             EventLoop& loop, Claim claim) {
    std::unique_ptr<DirectoryPeers> peers{new DirectoryPeers{fabric, connector, std::move(claim)}};
    auto directory = directory::Client::open(
        peers->log_.device(), std::move(process),
        {fabric.directory->etcd, fabric.directory->prefix, fabric.host, fabric.directory->address},
        loop, [all = peers.get()](const Hosts& hosts) { all->follow(hosts); });
    if (!directory) {
        return fail(directory.error());
    }
    peers->directory_ = std::move(*directory);
    return peers;
}

DirectoryPeers::DirectoryPeers(const FabricOptions& fabric, wire::fabric::Connector& connector,
                               Claim claim)
    : host_{fabric.host},
      address_{fabric.directory->address},
      connector_{connector},
      claim_{std::move(claim)},
      log_{"fabric " + fabric.name} {
    for (const FabricPeer& peer : fabric.peers) {
        fixed_.insert(peer.name);
    }
    for (auto number = static_cast<unsigned>(fabric.peers.size());
         number < wire::fabric::Handover::max_peers; ++number) {
        free_.insert(number);
    }
}

void DirectoryPeers::add(const Gid& gid) {
    if (++here_[gid] == 1) {
        announce();
    }
}

void DirectoryPeers::remove(const Gid& gid) {
    if (const auto found = here_.find(gid); found != here_.end() && --found->second == 0) {
        here_.erase(found);
        announce();
    }
}

void DirectoryPeers::announce() {
    std::set<Gid> gids;
    for (const auto& [gid, times] : here_) {
        gids.insert(gid);
    }
    directory_->set(std::move(gids));
}

// Forgets hosts that are gone before it adds new ones, to make room for those.
void DirectoryPeers::follow(const Hosts& hosts) {
    look_at_own(hosts);
    std::erase_if(known_, [&](const auto& known) {
        const bool gone = !hosts.contains(known.first);
        if (gone) {
            log_.info("{} is not in the directory any more", known.first);
            forget(known.second);
        }
        return gone;
    });
    for (const auto& [name, entry] : hosts) {
        if (name != host_) {
            change(name, entry);
        }
    }
}

// Somebody may have removed this host's entry, or another host may have taken its name.
void DirectoryPeers::look_at_own(const Hosts& hosts) {
    const auto found = hosts.find(host_);
    const auto now = found != hosts.end() ? found->second : nullptr;
    const auto before = std::exchange(own_, now);
    if (now == nullptr && before != nullptr) {
        directory_->repeat();
    } else if (now != nullptr && now != before && now->address != address_) {
        log_.warn("another host is in the directory as {}, at {} port {}", host_, now->address.host,
                  now->address.service);
    }
}

void DirectoryPeers::change(const std::string& name, const std::shared_ptr<const Entry>& entry) {
    const auto known = known_.find(name);
    if (known == known_.end()) {
        if (fixed_.contains(name) || free_.empty()) {
            log_.debug("{} of the directory is no peer: {}", name,
                       free_.empty() ? "there are too many" : "the configuration has it");
            return;
        }
        const unsigned number = free_.extract(free_.begin()).value();
        known_[name] = {number, entry};
        connector_.add(number, {name, entry->address});
        claim_(number, entry->claims);
    } else if (const auto before = std::exchange(known->second.entry, entry); before != entry) {
        connector_.move(known->second.number, entry->address);
        claim_(known->second.number, entry->claims);
    }
}

void DirectoryPeers::forget(const Known& known) {
    connector_.remove(known.number);
    claim_(known.number, {});
    free_.insert(known.number);
}

} // namespace vrdma::control
