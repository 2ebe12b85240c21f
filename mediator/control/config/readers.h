// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Each function reads one kind of table, and throws BadConfig. config.cpp calls them in this order.
#pragma once

#include <vector>

#include "mediator/control/config/config.h"
#include "mediator/control/config/section.h"

namespace vrdma::control {

void read_uplinks(std::vector<Section> sections, Config& config);
void read_fabrics(std::vector<Section> sections, Config& config);
void read_types(Section section, Config& config);
void read_vfio_users(std::vector<Section> sections, Config& config);
void read_control(Section section, ControlSocketOptions& control);
void read_metrics(Section section, ControlSocketOptions& control); // after the control socket

} // namespace vrdma::control
