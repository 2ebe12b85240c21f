// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A region as the network knows it, where hardware of the host moves its bytes. It ends with this
// object.
#pragma once

#include <cstdint>

namespace vrdma::hca::soft {

class NetworkRegion {
  public:
    explicit NetworkRegion(std::uint32_t lkey) noexcept : lkey_{lkey} {}
    NetworkRegion(const NetworkRegion&) = delete;
    NetworkRegion& operator=(const NetworkRegion&) = delete;
    virtual ~NetworkRegion() = default;

    // Its slice deregisters it. Afterwards the hardware touches no page of it.
    virtual void end() {}

    // By which WQEs of the hardware name it. Its addresses are the guest's.
    std::uint32_t lkey() const noexcept { return lkey_; }

  private:
    const std::uint32_t lkey_;
};

} // namespace vrdma::hca::soft
