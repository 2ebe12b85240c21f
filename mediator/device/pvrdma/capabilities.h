// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// What a device tells a driver of PVRDMA about itself.
#pragma once

#include "mediator/device/device_type.h"
#include "mediator/verbs/gid.h"
#include "vrdma/pvrdma/device.h"

namespace vrdma::pvrdma {

// One more than the driver's tables need: handle 0 is never used.
constexpr std::uint32_t table_size(std::uint32_t objects) noexcept {
    return objects + 1;
}

pvrdma_caps capabilities(const DeviceType& type, const verbs::Identity& identity,
                         verbs::Protocols protocols);

} // namespace vrdma::pvrdma
