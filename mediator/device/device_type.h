// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The sizes that devices come in.
#pragma once

#include <cstdint>
#include <string>

#include "mediator/hca/hca.h"
#include "mediator/verbs/identity.h"
#include "mediator/verbs/limits.h"

namespace vrdma {

struct DeviceType {
    std::string name;
    std::uint32_t max_instances = 0;
    std::uint64_t max_pinned = 0; // bytes of guest memory
    verbs::Limits limits;
    std::string uplink{};                  // that its devices are bound to, or none
    verbs::Vlans vlans{};                  // in which they may have addresses there
    hca::TrafficClasses traffic_classes{}; // that their packets may have there, beside 0
    hca::ServiceLevels service_levels{};   // the same
    PKeys pkeys{default_pkey};
    verbs::PortSpeed port_speed = verbs::as_memory; // of their ports, where an uplink says none
    // Bytes of a client's files that they do not have, and that are made for one device. Not of the
    // module's devices: their memory is a virtual machine's.
    std::uint64_t max_holes = std::uint64_t{1} << 30;
    hca::Share share{}; // of each device that has none of its own; may change
};

} // namespace vrdma
