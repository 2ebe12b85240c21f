// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Reports as JSON, as docs/control-api.yaml describes them.
#pragma once

#include <nlohmann/json.hpp>

#include "mediator/management/reports.h"

namespace vrdma::management {

nlohmann::json to_json(const Device& device);   // without its usages
nlohmann::json limits_of(const Device& device); // its share and its usages
nlohmann::json protocols_of(const Device& device);
// The network interface that the device uses on the host; the uplink is nullptr if it has none.
nlohmann::json netdev_of(const Device& device, const Uplink* uplink);
nlohmann::json to_json(const Counters& counters);
nlohmann::json to_json(const Uplink& uplink);
nlohmann::json to_json(const Peer& peer);

} // namespace vrdma::management
