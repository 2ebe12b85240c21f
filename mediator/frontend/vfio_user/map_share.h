// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// How many DMA maps each client may have. The mappings and file descriptors that the process may
// have are divided among all functions at the start, so that no client can take another's.
#pragma once

#include <cstddef>

namespace vrdma::vfio_user {

struct ProcessLimits {
    std::size_t mappings = 0;    // vm.max_map_count
    std::size_t descriptors = 0; // RLIMIT_NOFILE

    static ProcessLimits read();
    // That part of both, so that one kind of client cannot take another kind's.
    ProcessLimits part(std::size_t numerator, std::size_t denominator) const;
};

// Returns the most maps for a client, if there are `functions` functions with `vectors` vectors
// each.
std::size_t map_share(const ProcessLimits& limits, std::size_t functions, std::size_t vectors);

} // namespace vrdma::vfio_user
