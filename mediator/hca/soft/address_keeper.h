// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Who is told of the addresses that an uplink's slices have, and of the multicast groups that they
// are in, and sees to it that packets to them reach the uplink and are left to it. On the control
// thread.
#pragma once

#include <array>

#include "mediator/base/result.h"
#include "mediator/hca/soft/fabric.h"

namespace vrdma::hca::soft {

class AddressKeeper {
  public:
    virtual ~AddressKeeper() = default;

    // Slices that share an address add it each, and remove it as often.
    virtual Result<> add(const GidKey& gid, const std::array<std::uint8_t, 6>& mac) = 0;
    virtual void remove(const GidKey& gid, const std::array<std::uint8_t, 6>& mac) = 0;

    // Each slice joins a group once.
    virtual Result<> join(const Gid& /*group*/) { return {}; }
    virtual void leave(const Gid& /*group*/) {}
};

} // namespace vrdma::hca::soft
