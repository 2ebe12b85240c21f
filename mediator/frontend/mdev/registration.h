// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The message that registers an HCA and its types with the module.
#pragma once

#include <span>
#include <string>

#include "mediator/base/result.h"
#include "mediator/device/device_type.h"
#include "vrdma/mdev.h"

namespace vrdma::mdev {

// Fails if a name or description does not fit, or if there are too many uplinks.
Result<vrdma_mdev_register> registration(const std::string& name, std::span<const DeviceType> types,
                                         std::span<const std::string> uplinks);

} // namespace vrdma::mdev
