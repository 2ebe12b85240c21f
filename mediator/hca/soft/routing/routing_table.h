// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The slices that have this host's GIDs. Each poller has its own copy. The control thread changes
// it as it changes everything else of a poller: by a call (mailbox.h).
#pragma once

#include <unordered_map>
#include <vector>

#include "mediator/hca/soft/routing/route.h"

namespace vrdma::hca::soft {

class SliceCore;

class RoutingTable {
  public:
    // Changes whenever a peer that was found may no longer be the right one.
    std::uint64_t epoch() const noexcept { return epoch_; }
    void changed() noexcept { ++epoch_; }

    void add(const GidKey& key, SliceCore& slice, const QpnRange& qpns);
    void remove(const GidKey& key, SliceCore& slice);

    // The slice that has the GID and the QPN. If several could have it, the result is `asking` if
    // it is one of them, or else the slice that had the GID first. So no slice can take an address
    // away from its owner.
    SliceCore* find(const GidKey& key, Qpn qpn, const SliceCore* asking) const noexcept;

    // The QPN is the slice's, and is not of its range.
    void name(Qpn qpn, SliceCore& slice);
    void unname(Qpn qpn, SliceCore& slice);

    // Whether a slice of this mediator has that GID.
    bool knows(const GidKey& key) const noexcept { return claims_.contains(key); }

    // Slices that share a GID have a QP1 each. One of them gets the requests for a service.
    // Requests that are for none of them go to a slice that listens to `anything`.
    static constexpr std::uint64_t anything = 0;
    bool is_shared(const GidKey& key) const noexcept;
    void listen(std::uint64_t service, SliceCore& slice);
    void unlisten(std::uint64_t service, SliceCore& slice);
    SliceCore* find_listener(const GidKey& key, std::uint64_t service) const noexcept;

    // A slice with QPs in a multicast group. Each join has its own number. An iteration by these
    // numbers visits each member that stays exactly once, even if the group changes meanwhile.
    struct Member {
        std::uint64_t join; // above 0
        SliceCore* slice;
    };
    void join(const Gid& group, SliceCore& slice);
    void leave(const Gid& group, SliceCore& slice);
    // The first member that joined after that number. nullptr: there are no more.
    const Member* next_member(const Gid& group, std::uint64_t join) const noexcept;

  private:
    struct Claim {
        SliceCore* slice;
        QpnRange qpns;
    };

    bool has(const Claim& claim, Qpn qpn) const noexcept;

    std::uint64_t epoch_ = 1;
    std::unordered_multimap<Qpn, SliceCore*> names_;
    std::unordered_map<GidKey, std::vector<Claim>, GidHash> claims_;
    std::unordered_map<std::uint64_t, std::vector<SliceCore*>> listeners_; // by service
    std::uint64_t joins_ = 0;
    std::unordered_map<Gid, std::vector<Member>, GidHash> groups_; // in the order of their joins
};

} // namespace vrdma::hca::soft
