// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Uplinks at both ends of a virtual cable.
#pragma once

#include <memory>

#include "mediator/wire/uplink/packet_uplink.h"
#include "network.h"

namespace vrdma::wire {

class TwoPacketUplinks : public TwoHosts {
  protected:
    TwoPacketUplinks() {
        near = PacketUplink::create("near").value();
        there.enter();
        far = PacketUplink::create("far").value();
        here.enter();
    }

    std::unique_ptr<PacketUplink> near;
    std::unique_ptr<PacketUplink> far;
};

} // namespace vrdma::wire
