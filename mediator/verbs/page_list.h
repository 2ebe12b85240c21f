// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The page lists of guest commands: read once, validated, and kept as translations.
#pragma once

#include <cstdint>

#include "mediator/base/result.h"
#include "mediator/hca/hca.h"
#include "mediator/memory/guest_memory.h"
#include "mediator/verbs/memory_budget.h"
#include "mediator/verbs/saved_state.h"
#include "vrdma/device.h"

namespace vrdma::verbs {

// A buffer of the guest: where it lies, and its share of the budget.
struct Buffer {
    hca::Translation pages;
    MemoryBudget::Lease lease;
};

// Reads the list of a buffer of `length` bytes, which must have exactly the blocks it needs.
Result<Buffer> read_page_list(GuestMemory& memory, MemoryBudget& budget,
                              const vrdma_page_list& list, std::uint64_t first_offset,
                              std::uint64_t length);

void save_pages(StateWriter& writer, const hca::Translation& pages);
Result<Buffer> restore_pages(StateReader& reader, GuestMemory& memory, MemoryBudget& budget,
                             std::uint64_t length);

} // namespace vrdma::verbs
