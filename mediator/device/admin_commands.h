// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// What each admin command does.
#pragma once

#include <optional>
#include <string>

#include "mediator/verbs/objects.h"
#include "vrdma/device.h"

namespace vrdma {

// Validates and runs a command that was copied out of guest memory. The completion lacks its phase.
// Nothing: this was one step of several, and the same command is to be run again.
std::optional<vrdma_admin_cpl> run_admin_command(verbs::Objects& objects,
                                                 const vrdma_admin_cmd& cmd);

// For the log: the command, the object, and what became of it.
std::string describe(const vrdma_admin_cmd& cmd, const vrdma_admin_cpl& cpl);

} // namespace vrdma
