// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Who a mediated device is, and what it gets: what its attributes in sysfs say, or what follows
// from its UUID and its type.
#pragma once

#include <span>
#include <string>

#include "mediator/device/device_type.h"
#include "mediator/verbs/identity.h"
#include "vrdma/mdev.h"

namespace vrdma::mdev {

std::string uuid_text(std::span<const std::uint8_t, 16> uuid);

verbs::Identity identity_of(const vrdma_mdev_device_info& info, const DeviceType& type);

// What was written is bounded here, too.
hca::Share share_of(const vrdma_mdev_device_info& info, const DeviceType& type);

} // namespace vrdma::mdev
