// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/control/owners.h"

#include <algorithm>

namespace vrdma::control {

Owners::Outcome Owners::set(unsigned peer, const Claims& claims) {
    Outcome outcome;
    const Claims before = std::exchange(claimed_by_[peer], claims);
    for (const auto& [gid, since] : before) {
        if (!claims.contains(gid)) {
            change(gid, peer, std::nullopt, outcome.changes);
        }
    }
    for (const auto& [gid, since] : claims) {
        if (const auto had = before.find(gid); had == before.end() || had->second != since) {
            change(gid, peer, since, outcome.changes);
        }
        if (!before.contains(gid)) {
            outcome.added.push_back(gid);
        }
    }
    if (claims.empty()) {
        claimed_by_.erase(peer);
    }
    return outcome;
}

void Owners::change(const Gid& gid, unsigned peer, std::optional<std::int64_t> since,
                    std::vector<Change>& changes) {
    const auto from = owner(gid);
    std::vector<Claim>& all = claims_[gid];
    std::erase_if(all, [peer](const Claim& claim) { return claim.second == peer; });
    if (since) {
        const Claim added{*since, peer};
        all.insert(std::ranges::upper_bound(all, added), added);
    }
    if (all.empty()) {
        claims_.erase(gid);
    }
    if (const auto to = owner(gid); to != from) {
        changes.push_back({gid, from, to});
    }
}

std::optional<unsigned> Owners::owner(const Gid& gid) const {
    const auto found = claims_.find(gid);
    return found != claims_.end() ? std::optional{found->second.back().second} : std::nullopt;
}

bool Owners::contested(const Gid& gid) const {
    const auto found = claims_.find(gid);
    return found != claims_.end() && found->second.size() > 1;
}

bool Owners::is_fixed(const Gid& gid) const {
    const auto found = claims_.find(gid);
    return found != claims_.end() && found->second.back().first == always;
}

std::size_t Owners::claims_of(unsigned peer) const {
    const auto claimed = claimed_by_.find(peer);
    return claimed != claimed_by_.end() ? claimed->second.size() : 0;
}

std::vector<Gid> Owners::gids_of(unsigned peer) const {
    std::vector<Gid> gids;
    const auto claimed = claimed_by_.find(peer);
    if (claimed != claimed_by_.end()) {
        gids.reserve(claimed->second.size());
        for (const auto& [gid, since] : claimed->second) {
            if (owner(gid) == peer) {
                gids.push_back(gid);
            }
        }
    }
    return gids;
}

} // namespace vrdma::control
