// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Which peer of a fabric has an address. A peer claims its addresses, each since some time, and of
// two that claim the same the later has it: that is where a guest has moved to.
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
        std::vector<Gid> added; // that the peer did not claim so far
    };

    // Time of what the configuration says, which is later than anything.
    static constexpr std::int64_t always = INT64_MAX;

    // In the place of what the peer claimed so far.
    Outcome set(unsigned peer, const Claims& claims);

    std::optional<unsigned> owner(const Gid& gid) const;
    // Others claim it as well.
    bool contested(const Gid& gid) const;
    // The configuration has it.
    bool is_fixed(const Gid& gid) const;
    // In order.
    std::vector<Gid> gids_of(unsigned peer) const;

  private:
    using Claim = std::pair<std::int64_t, unsigned>; // since when, and whose

    void change(const Gid& gid, unsigned peer, std::optional<std::int64_t> since,
                std::vector<Change>& changes);

    std::map<Gid, std::vector<Claim>> claims_; // of each, in order: the last has it
    std::map<unsigned, Claims> claimed_by_;
};

} // namespace vrdma::control
