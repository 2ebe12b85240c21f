// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Devices that a thread has opened. A poller opens those that it may need while it still can (see
// Device::open).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "mediator/hca/host/device.h"

namespace vrdma::hca::host {

// Opens devices for this thread. open_here() reports what fails.
void open_early(const Libibverbs& library, const std::vector<std::string>& names);

// A device that this thread opens, or has opened. The error is for people.
tl::expected<std::shared_ptr<Device>, std::string> open_here(const Libibverbs& library,
                                                             const std::string& name);

} // namespace vrdma::hca::host
