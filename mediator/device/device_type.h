// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The types of devices, with their limits.
#pragma once

#include <cstdint>
#include <string>

#include "mediator/base/pkey.h"
#include "mediator/hca/share.h"
#include "mediator/verbs/identity.h"
#include "mediator/verbs/limits.h"

namespace vrdma {

// What a guest's driver takes a device for (personality.h).
enum class PersonalityKind : std::uint8_t { vrdma, pvrdma };

struct DeviceType {
    std::string name;
    std::uint32_t max_instances = 0;
    std::uint64_t max_pinned = 0; // bytes of guest memory
    verbs::Limits limits;
    std::string uplink{};                  // that its devices are bound to, or none
    verbs::Vlans vlans{};                  // in which they may have addresses there
    hca::TrafficClasses traffic_classes{}; // that their packets may have there, besides 0
    hca::ServiceLevels service_levels{};   // likewise
    PKeys pkeys{default_pkey};
    verbs::PortSpeed port_speed = verbs::as_memory; // of their ports, if the uplink reports none
    // Bytes of holes in a client's files that are filled for one device. Devices of the kernel
    // module have no such limit, because their memory is a virtual machine's.
    std::uint64_t max_holes = std::uint64_t{1} << 30;
    hca::Share share{}; // for each device that has none of its own; may change
    // Its devices have this personality. A device behind a socket may have another one.
    PersonalityKind personality = PersonalityKind::vrdma;
};

} // namespace vrdma
