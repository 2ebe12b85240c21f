// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Who is where: the slices that this host's GIDs lead to. Each poller has a copy of its own, which
// the control thread changes as it changes everything of a poller's, by a call.
#pragma once

#include <cstring>
#include <unordered_map>
#include <vector>

#include "mediator/hca/hca.h"

namespace vrdma::hca::soft {

class SliceCore;

// A GID and how RoCE packets from it look (VRDMA_GID_ROCE_V*): peers of another type do not meet.
struct GidKey {
    Gid gid{};
    std::uint8_t type = 0;

    friend bool operator==(const GidKey&, const GidKey&) = default;
};

struct GidHash {
    std::size_t operator()(const GidKey& key) const noexcept {
        std::uint64_t halves[2];
        std::memcpy(halves, key.gid.data(), sizeof(halves));
        return (halves[0] * 31 + halves[1]) * 31 + key.type;
    }
};

class Fabric {
  public:
    // Changes whenever a peer that was found may no longer be the right one.
    std::uint64_t epoch() const noexcept { return epoch_; }
    void changed() noexcept { ++epoch_; }

    void add(const GidKey& key, SliceCore& slice);
    void remove(const GidKey& key, SliceCore& slice);

    // The slice behind a GID. Where several claim it, the one that asks or else the one that had it
    // first: nobody takes an address away from its owner.
    SliceCore* find(const GidKey& key, const SliceCore& asking) const noexcept;

  private:
    std::uint64_t epoch_ = 1;
    std::unordered_map<GidKey, std::vector<SliceCore*>, GidHash> slices_;
};

} // namespace vrdma::hca::soft
