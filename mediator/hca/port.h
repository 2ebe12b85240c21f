// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A slice's port: its addresses, its link, and the services that it listens to.
#pragma once

#include <cstdint>

#include "mediator/base/gid.h"
#include "mediator/base/result.h"

namespace vrdma::hca {

using vrdma::Gid;

inline constexpr std::uint32_t max_mtu = 4096; // payload bytes of a packet, or of a datagram

// What the hardware that moves a slice's messages allows. The defaults are no limit.
struct HardwareLimits {
    std::uint64_t max_mr_size = UINT64_MAX;
    std::uint16_t max_sge = UINT16_MAX;
    std::uint8_t max_rd_atomic = UINT8_MAX; // of a QP, in each direction
    bool shares_receives = true;            // it has SRQs, and XRC
};

class SlicePort {
  public:
    // An empty GID (all zero) clears the entry. EACCES: guests may not use that VLAN of the uplink.
    virtual Result<> set_gid(std::uint32_t index, std::uint8_t type, const Gid& gid,
                             std::uint16_t vlan) = 0;

    // The port's MTU: enum ibv_mtu.
    virtual std::uint8_t max_mtu() const = 0;
    // Whether the slice's uplink has a carrier. Always true without an uplink. Each change is
    // reported to the async event queue; initially, the queue assumes that the port is up.
    virtual bool port_up() const = 0;
    // The uplink's speed in Mb/s. 0 if it is unknown or there is no uplink.
    virtual std::uint32_t port_mbps() const = 0;

    virtual HardwareLimits hardware_limits() const { return {}; }

    // Among the slices with the same GID, this slice's QP1 gets the requests for `service`.
    virtual void listen(std::uint64_t service) = 0;
    virtual void unlisten(std::uint64_t service) = 0;

  protected:
    ~SlicePort() = default;
};

} // namespace vrdma::hca
