// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The identity and the share of a mediated device. They come from its attributes in sysfs, or else
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

// Limits the values of the attributes, as the module does.
hca::Share share_of(const vrdma_mdev_device_info& info, const DeviceType& type);

} // namespace vrdma::mdev
