// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Metrics for Prometheus: docs/metrics.md.
#pragma once

#include <string>

#include "mediator/management/asker.h"

namespace vrdma::management {

// The text of all metrics. Each reading asks every poller for the counters of its devices.
Answered<std::string> read_metrics(Asker& asker);

} // namespace vrdma::management
