// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The settings of a question as a section of vrdmad.conf(5). No text of TOML is parsed for this.
#pragma once

#include "mediator/control/config/toml.h"
#include "mediator/management/mediator.h"

namespace vrdma::control {

// EINVAL: vrdmad cannot look for users and groups any more, so they must be numbers.
management::Answered<toml::table> section_of(const management::Settings& settings);

} // namespace vrdma::control
