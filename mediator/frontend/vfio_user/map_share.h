// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// How many DMA maps each client may have. What the process may have of mappings and of file
// descriptors is divided among all functions at the start, so that no client takes another's.
#pragma once

#include <cstddef>

namespace vrdma::vfio_user {

struct ProcessLimits {
    std::size_t mappings = 0;    // vm.max_map_count
    std::size_t descriptors = 0; // RLIMIT_NOFILE

    static ProcessLimits read();
};

// The most that a client of one of so many functions may have; vectors: of each.
std::size_t map_share(const ProcessLimits& limits, std::size_t functions, std::size_t vectors);

} // namespace vrdma::vfio_user
