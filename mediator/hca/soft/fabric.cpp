// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/fabric.h"

#include <algorithm>

namespace vrdma::hca::soft {

void Fabric::add(const GidKey& key, SliceCore& slice) {
    slices_[key].push_back(&slice);
    changed();
}

void Fabric::remove(const GidKey& key, SliceCore& slice) {
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

SliceCore* Fabric::find(const GidKey& key, const SliceCore& asking) const noexcept {
    const auto found = slices_.find(key);
    if (found == slices_.end()) {
        return nullptr;
    }
    const auto& claims = found->second;
    const auto own = std::find(claims.begin(), claims.end(), &asking);
    return own != claims.end() ? *own : claims.front();
}

} // namespace vrdma::hca::soft
