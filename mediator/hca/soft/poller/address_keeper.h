// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Interface that learns the addresses of an uplink's slices, and their multicast groups. The keeper
// ensures that packets to them reach the uplink, and that the host leaves those packets to the
// uplink. Called on the control thread.
#pragma once

#include <array>

#include "mediator/base/result.h"
#include "mediator/hca/soft/routing/routing_table.h"

namespace vrdma::hca::soft {

class AddressKeeper {
  public:
    virtual ~AddressKeeper() = default;

    // Each of the slices that share an address adds it and removes it.
    virtual Result<> add(const GidKey& gid, const std::array<std::uint8_t, 6>& mac) = 0;
    virtual void remove(const GidKey& gid, const std::array<std::uint8_t, 6>& mac) = 0;

    // Each slice joins a group once.
    virtual Result<> join(const Gid& /*group*/) { return {}; }
    virtual void leave(const Gid& /*group*/) {}
};

} // namespace vrdma::hca::soft
