// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/routing_table.h"

#include <algorithm>

#include "mediator/hca/soft/slice_core.h"

namespace vrdma::hca::soft {

void RoutingTable::add(const GidKey& key, SliceCore& slice) {
    slices_[key].push_back(&slice);
    changed();
}

void RoutingTable::remove(const GidKey& key, SliceCore& slice) {
    const auto found = slices_.find(key);
    if (found == slices_.end()) {
        return;
    }
    auto& claims = found->second;
    const auto claim = std::find(claims.begin(), claims.end(), &slice);
    if (claim != claims.end()) {
        claims.erase(claim);
    }
    if (claims.empty()) {
        slices_.erase(found);
    }
    changed();
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
    const auto found = slices_.find(key);
    if (found == slices_.end()) {
        return nullptr;
    }
    SliceCore* first = nullptr;
    for (SliceCore* const claim : found->second) {
        if (!claim->qpns().contains(qpn)) {
            continue;
        }
        if (claim == asking) {
            return claim;
        }
        first = first != nullptr ? first : claim;
    }
    return first;
}

bool RoutingTable::is_shared(const GidKey& key) const noexcept {
    const auto found = slices_.find(key);
    return found != slices_.end() && found->second.size() > 1;
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
    const auto claims = slices_.find(key);
    const auto listeners = listeners_.find(service);
    if (claims == slices_.end() || listeners == listeners_.end()) {
        return nullptr;
    }
    const auto listener = std::ranges::find_first_of(claims->second, listeners->second);
    return listener != claims->second.end() ? *listener : nullptr;
}

} // namespace vrdma::hca::soft
