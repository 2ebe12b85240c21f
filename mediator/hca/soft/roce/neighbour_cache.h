// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The Ethernet addresses that were found out. All devices of a port use what one has asked for; but
// it is that one's, so that who asks for very many loses his own.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <utility>

#include "mediator/base/holdings.h"
#include "mediator/hca/soft/fabric.h"
#include "mediator/wire/packet.h"

namespace vrdma::hca::soft::roce {

class NeighbourCache {
  public:
    static constexpr std::size_t most_each = 4096;
    static constexpr std::size_t most = 16384;

    // nullptr: it is not known.
    const wire::Mac* find(const GidKey& key) const noexcept {
        const auto found = neighbours_.find(key);
        return found == neighbours_.end() ? nullptr : &found->second.mac;
    }

    // Whether that is news: paths may use what was known before, or what a packet showed.
    bool set(std::uint64_t device, const GidKey& key, const wire::Mac& mac) {
        const auto [at, added] = neighbours_.try_emplace(key, Neighbour{mac, device});
        if (!added) {
            return std::exchange(at->second.mac, mac) != mac;
        }
        if (const auto lost = holdings_.add(device, key)) {
            neighbours_.erase(lost->second);
        }
        return true;
    }
    // What the device has found out; another may know better by now.
    bool forget(std::uint64_t device, const GidKey& key) {
        const auto found = neighbours_.find(key);
        if (found == neighbours_.end() || found->second.device != device) {
            return false;
        }
        holdings_.remove(found->second.device, key);
        neighbours_.erase(found);
        return true;
    }
    void clear() {
        neighbours_.clear();
        holdings_.clear();
    }

  private:
    struct Neighbour {
        wire::Mac mac;
        std::uint64_t device; // that has asked for it
    };

    std::unordered_map<GidKey, Neighbour, GidHash> neighbours_;
    Holdings<GidKey> holdings_{most_each, most};
};

} // namespace vrdma::hca::soft::roce
