// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Keys that types and devices have in common. A device begins with the values of its type. A key
// that the file does not have leaves its value as it is.
#pragma once

#include <string>
#include <string_view>

#include "mediator/control/config/config.h"
#include "mediator/control/config/section.h"

namespace vrdma::control {

// The name of an uplink or a fabric, which must exist, or "".
void read_binding(Section& section, const Config& config, std::string& name);
// Only VLANs that the uplink has are accepted. A fabric has no VLANs.
void read_vlans(Section& section, const Config& config, const std::string& uplink, Vlans& vlans);
void read_classes(Section& section, hca::TrafficClasses& traffic_classes,
                  hca::ServiceLevels& service_levels);
void read_port_speed(Section& section, verbs::PortSpeed& speed);
void read_pkeys(Section& section, PKeys& pkeys);
void read_share(Section& section, hca::Share& share);
// PVRDMA's driver needs some of the limits: `whose` says whose they are.
void read_personality(Section& section, const verbs::Limits& limits, std::string_view whose,
                      PersonalityKind& personality);
// At most what the type allows.
void read_quotas(Section& section, const verbs::Limits& limits, verbs::Quotas& quotas);
// The versions of RoCE that a device may use on an Ethernet uplink.
void read_protocol(Section& section, bool ethernet, verbs::Protocols& protocols);

} // namespace vrdma::control
