// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Shared by all devices of one vrdmad, whichever front end they have.
#pragma once

#include <span>

#include "mediator/base/event_loop.h"
#include "mediator/device/device.h"
#include "mediator/frontend/gathering.h"
#include "mediator/memory/fault_times.h"

namespace vrdma {

// All members must outlive the devices.
struct Host {
    EventLoop& loop;
    hca::Hca& hca;
    verbs::GidRegistry& gids;
    std::span<const DeviceType> types;
    FaultTimes* fault_times = nullptr; // of the control thread, on which all devices run
    Gathering* gathering = nullptr;    // of devices that come back, or none
    Activity* activity = nullptr;      // of all devices
};

} // namespace vrdma
