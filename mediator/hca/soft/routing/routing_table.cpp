// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/routing/routing_table.h"

#include <algorithm>

namespace vrdma::hca::soft {

void RoutingTable::add(const GidKey& key, SliceCore& slice, const QpnRange& qpns) {
    claims_[key].push_back({&slice, qpns});
    changed();
}

void RoutingTable::remove(const GidKey& key, SliceCore& slice) {
    const auto found = claims_.find(key);
    if (found == claims_.end()) {
        return;
    }
    auto& claims = found->second;
    const auto claim = std::ranges::find(claims, &slice, &Claim::slice);
    if (claim != claims.end()) {
        claims.erase(claim);
    }
    if (claims.empty()) {
        claims_.erase(found);
    }
    changed();
}

void RoutingTable::name(Qpn qpn, SliceCore& slice) {
    names_.emplace(qpn, &slice);
    changed();
}

void RoutingTable::unname(Qpn qpn, SliceCore& slice) {
    const auto [first, last] = names_.equal_range(qpn);
    const auto found =
        std::find_if(first, last, [&](const auto& at) { return at.second == &slice; });
    if (found != last) {
        names_.erase(found);
    }
    changed();
}

bool RoutingTable::has(const Claim& claim, Qpn qpn) const noexcept {
    if (claim.qpns.contains(qpn)) {
        return true;
    }
    const auto [first, last] = names_.equal_range(qpn);
    return std::any_of(first, last, [&](const auto& at) { return at.second == claim.slice; });
}

void RoutingTable::join(const Gid& group, SliceCore& slice) {
    groups_[group].push_back({++joins_, &slice});
}

void RoutingTable::leave(const Gid& group, SliceCore& slice) {
    const auto found = groups_.find(group);
    if (found == groups_.end()) {
        return;
    }
    std::erase_if(found->second, [&](const Member& member) { return member.slice == &slice; });
    if (found->second.empty()) {
        groups_.erase(found);
    }
}

const RoutingTable::Member* RoutingTable::next_member(const Gid& group,
                                                      std::uint64_t join) const noexcept {
    const auto found = groups_.find(group);
    if (found == groups_.end()) {
        return nullptr;
    }
    const auto next = std::ranges::upper_bound(found->second, join, {}, &Member::join);
    return next != found->second.end() ? &*next : nullptr;
}

SliceCore* RoutingTable::find(const GidKey& key, Qpn qpn, const SliceCore* asking) const noexcept {
    const auto found = claims_.find(key);
    if (found == claims_.end()) {
        return nullptr;
    }
    SliceCore* first = nullptr;
    for (const Claim& claim : found->second) {
        if (!has(claim, qpn)) {
            continue;
        }
        if (claim.slice == asking) {
            return claim.slice;
        }
        first = first != nullptr ? first : claim.slice;
    }
    return first;
}

bool RoutingTable::is_shared(const GidKey& key) const noexcept {
    const auto found = claims_.find(key);
    return found != claims_.end() && found->second.size() > 1;
}

void RoutingTable::listen(std::uint64_t service, SliceCore& slice) {
    listeners_[service].push_back(&slice);
}

void RoutingTable::unlisten(std::uint64_t service, SliceCore& slice) {
    const auto found = listeners_.find(service);
    if (found == listeners_.end()) {
        return;
    }
    std::erase(found->second, &slice);
    if (found->second.empty()) {
        listeners_.erase(found);
    }
}

SliceCore* RoutingTable::find_listener(const GidKey& key, std::uint64_t service) const noexcept {
    const auto claims = claims_.find(key);
    const auto listeners = listeners_.find(service);
    if (claims == claims_.end() || listeners == listeners_.end()) {
        return nullptr;
    }
    const auto listener =
        std::ranges::find_first_of(claims->second, listeners->second, {}, &Claim::slice);
    return listener != claims->second.end() ? listener->slice : nullptr;
}

} // namespace vrdma::hca::soft
