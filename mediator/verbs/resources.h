// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The resources from which all verbs objects of one device are made.
#pragma once

#include "mediator/hca/slice.h"
#include "mediator/memory/guest_memory.h"
#include "mediator/verbs/limits.h"
#include "mediator/verbs/page_list.h"
#include "mediator/verbs/quotas.h"

namespace vrdma::verbs {

struct Resources {
    Resources(const Limits& limits_, GuestMemory& memory_, hca::Slice& slice_)
        : limits{within(limits_, slice_.hardware_limits())},
          allowed{limits},
          memory{memory_},
          slice{slice_},
          budget{limits_.max_blocks, limits_.max_memory},
          lists{memory, budget, slice},
          costs{slice_.costs()} {}

    // Quotas of which some are below what the device has already leave it that.
    void set_quotas(const Quotas& quotas) {
        allowed = within(limits, quotas);
        budget.bound(quotas.memory, quotas.blocks);
    }

    Limits limits;  // of the device, within those of its hardware
    Limits allowed; // the same, but for quotas
    GuestMemory& memory;
    hca::Slice& slice;
    MemoryBudget budget;
    PageLists lists;
    const hca::Costs costs;
    std::size_t pkeys = 1; // in the port's table
};

} // namespace vrdma::verbs
