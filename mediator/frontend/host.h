// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// What the devices of one vrdmad share, whatever plugs them into a guest.
#pragma once

#include <span>

#include "mediator/base/event_loop.h"
#include "mediator/device/device.h"
#include "mediator/memory/fault_times.h"

namespace vrdma {

// All outlive the devices.
struct Host {
    EventLoop& loop;
    hca::Hca& hca;
    verbs::GidRegistry& gids;
    std::span<const DeviceType> types;
    FaultTimes* fault_times = nullptr; // of the control thread, which all run on
};

} // namespace vrdma
