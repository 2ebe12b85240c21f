// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// vrdmad gives up what its configuration does not need: capabilities, writing to files, and system
// calls.
#pragma once

#include <functional>

#include "mediator/base/result.h"
#include "mediator/control/config/config.h"
#include "mediator/jail/system_calls.h"

namespace vrdma::control {

// Whether vrdmad keeps what serving an uplink takes by which it sends frames.
bool may_serve_uplinks(const Config& config);

// Call it before any thread but the pollers starts, because threads inherit the restrictions; and
// after sockets have their owners, which takes a capability. The error is for people.
tl::expected<void, std::string> confine(const Config& config, jail::Forbidden forbidden);

// Each poller calls this on its own thread. open() is called when it has the credentials that it
// keeps, and can still open files.
void confine_poller(jail::Forbidden forbidden, const std::function<void()>& open);

} // namespace vrdma::control
