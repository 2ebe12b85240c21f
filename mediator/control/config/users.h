// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Keys that name a user or a group of this host. Without the key, `out` stays as it is.
#pragma once

#include <sys/types.h>

#include <string_view>

#include "mediator/control/config/section.h"

namespace vrdma::control {

void read_user(Section& section, std::string_view key, uid_t& out);
void read_group(Section& section, std::string_view key, gid_t& out);

} // namespace vrdma::control
