// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Knows which peer of a fabric has an address. A peer claims its addresses, each with the time
// since when it does. If two peers claim an address, the later one has it, because a guest has
// moved there.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "mediator/base/gid.h"
#include "mediator/directory/entry.h"

namespace vrdma::control {

using directory::Claims;

class Owners {
  public:
    struct Change {
        Gid gid;
        std::optional<unsigned> from;
        std::optional<unsigned> to;
    };

    struct Outcome {
        std::vector<Change> changes;
        std::vector<Gid> added; // the peer did not claim these before
    };

    // The time of claims from the configuration, which is later than all others.
    static constexpr std::int64_t always = INT64_MAX;

    // Replaces the peer's claims.
    Outcome set(unsigned peer, const Claims& claims);

    std::optional<unsigned> owner(const Gid& gid) const;
    // Whether more than one peer claims it.
    bool contested(const Gid& gid) const;
    // Whether the configuration says whose it is.
    bool is_fixed(const Gid& gid) const;
    // How many GIDs the peer claims.
    std::size_t claims_of(unsigned peer) const;
    // Returns the GIDs in order.
    std::vector<Gid> gids_of(unsigned peer) const;

  private:
    using Claim = std::pair<std::int64_t, unsigned>; // the time since when, and the peer

    void change(const Gid& gid, unsigned peer, std::optional<std::int64_t> since,
                std::vector<Change>& changes);

    std::map<Gid, std::vector<Claim>> claims_; // in order: the last claim of a GID wins
    std::map<unsigned, Claims> claimed_by_;
};

} // namespace vrdma::control
