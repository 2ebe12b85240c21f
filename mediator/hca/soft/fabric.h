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

// A GID, how RoCE packets from it look (VRDMA_GID_ROCE_V*), and the VLAN that it is in, or 0: peers
// of another type or in another VLAN do not meet.
struct GidKey {
    Gid gid{};
    std::uint8_t type = 0;
    std::uint16_t vlan = 0;

    friend bool operator==(const GidKey&, const GidKey&) = default;
};

struct GidHash {
    std::size_t operator()(const Gid& gid) const noexcept {
        std::uint64_t halves[2];
        std::memcpy(halves, gid.data(), sizeof(halves));
        return halves[0] * 31 + halves[1];
    }
    std::size_t operator()(const GidKey& key) const noexcept {
        return ((*this)(key.gid) * 31 + key.type) * 31 + key.vlan;
    }
};

class Fabric {
  public:
    // Changes whenever a peer that was found may no longer be the right one.
    std::uint64_t epoch() const noexcept { return epoch_; }
    void changed() noexcept { ++epoch_; }

    void add(const GidKey& key, SliceCore& slice);
    void remove(const GidKey& key, SliceCore& slice);

    // The slice behind a GID with that QPN. Where several could have it, the one that asks, if that
    // is here, or else the one that had the GID first: nobody takes an address away from its owner.
    SliceCore* find(const GidKey& key, Qpn qpn, const SliceCore* asking) const noexcept;

    // A slice of this mediator has that GID.
    bool knows(const GidKey& key) const noexcept { return slices_.contains(key); }

    // Slices that have a GID in common have a QP1 each. One gets the requests for a service; what
    // is for none of them goes to one that listens to `anything`.
    static constexpr std::uint64_t anything = 0;
    bool is_shared(const GidKey& key) const noexcept;
    void listen(std::uint64_t service, SliceCore& slice);
    void unlisten(std::uint64_t service, SliceCore& slice);
    SliceCore* find_listener(const GidKey& key, std::uint64_t service) const noexcept;

    // A slice with QPs in a multicast group. No two joins have the same number, so whoever goes by
    // them meets each member that stays once, however the group changes under way.
    struct Member {
        std::uint64_t join; // above 0
        SliceCore* slice;
    };
    void join(const Gid& group, SliceCore& slice);
    void leave(const Gid& group, SliceCore& slice);
    // The first that joined after that one; nullptr: no more.
    const Member* next_member(const Gid& group, std::uint64_t join) const noexcept;

  private:
    std::uint64_t epoch_ = 1;
    std::unordered_map<GidKey, std::vector<SliceCore*>, GidHash> slices_;
    std::unordered_map<std::uint64_t, std::vector<SliceCore*>> listeners_; // by service
    std::uint64_t joins_ = 0;
    std::unordered_map<Gid, std::vector<Member>, GidHash> groups_; // in the order of their joins
};

} // namespace vrdma::hca::soft
