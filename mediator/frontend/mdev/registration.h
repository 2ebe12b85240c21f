// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// What the module is told of an HCA and its types.
#pragma once

#include <span>
#include <string>

#include "mediator/base/result.h"
#include "mediator/device/device_type.h"
#include "vrdma/mdev.h"

namespace vrdma::mdev {

// Names and descriptions that do not fit, and too many uplinks, are an error.
Result<vrdma_mdev_register> registration(const std::string& name, std::span<const DeviceType> types,
                                         std::span<const std::string> uplinks);

} // namespace vrdma::mdev
