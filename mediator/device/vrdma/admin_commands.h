// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Executes admin commands.
#pragma once

#include <optional>
#include <string>

#include "mediator/verbs/objects.h"
#include "vrdma/device.h"

namespace vrdma {

// Validates and runs a command that was copied out of guest memory. Returns its completion, without
// the phase; or nothing after one step of several, and then the caller runs the same command again.
std::optional<vrdma_admin_cpl> run_admin_command(verbs::Objects& objects,
                                                 const vrdma_admin_cmd& cmd);

// For the log: the command, the object, and the result.
std::string describe(const vrdma_admin_cmd& cmd, const vrdma_admin_cpl& cpl);

} // namespace vrdma
