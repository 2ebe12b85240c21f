// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The Ethernet addresses of neighbours. All devices of a port use an address that one of them has
// asked for. But the entry belongs to that device, so that a device that asks for very many loses
// its own entries.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <utility>

#include "mediator/base/holdings.h"
#include "mediator/hca/soft/routing/routing_table.h"
#include "mediator/wire/packet.h"

namespace vrdma::hca::soft::roce {

class NeighbourCache {
  public:
    static constexpr std::size_t most_each = 4096;
    static constexpr std::size_t most = 16384;

    // nullptr: the address is not known.
    const wire::Mac* find(const GidKey& key) const noexcept {
        const auto found = neighbours_.find(key);
        return found == neighbours_.end() ? nullptr : &found->second.mac;
    }

    // Returns whether the address is new: paths may use an older one, or one that a packet showed.
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
    // Removes an entry if it is the device's: another device may know better by now.
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
