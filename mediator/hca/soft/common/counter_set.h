// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Counters of the QPs that are bound to it.
#pragma once

#include "mediator/hca/soft/common/cache_line.h"
#include "vrdma/device.h"

namespace vrdma::hca::soft {

struct alignas(cache_line) CounterSet {
    vrdma_counters counters{};
};

} // namespace vrdma::hca::soft
