// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// What vrdmad does without, by its configuration: capabilities, files that it could write, system
// calls.
#pragma once

#include "mediator/base/result.h"
#include "mediator/control/config.h"
#include "mediator/jail/system_calls.h"

namespace vrdma::control {

// Before there are other threads, as what holds for this one then holds for all; and after sockets
// have their owners, which takes a capability. The error is for people.
tl::expected<void, std::string> confine(const Config& config, jail::Forbidden forbidden);

// What each poller does besides, on its thread.
void confine_poller(jail::Forbidden forbidden);

} // namespace vrdma::control
