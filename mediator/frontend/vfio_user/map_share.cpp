// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/frontend/vfio_user/map_share.h"

#include <sys/resource.h>

#include <algorithm>
#include <fstream>

#include "mediator/frontend/vfio_user/client_memory.h"

namespace vrdma::vfio_user {
namespace {

// A quarter is left for everything else in the process.
constexpr std::size_t for_clients(std::size_t all) {
    return all - all / 4;
}

// A client's maps and scratch pages may all lie apart. Then the gap beside each is one more
// mapping.
constexpr std::size_t mappings_each = 2;
constexpr std::size_t own_mappings = 9; // the window's margins, the doorbell pages, ...
constexpr std::size_t own_descriptors =
    18; // its connection, the doorbell pages, eventfds, holes, ...

std::size_t part_of(std::size_t all, std::size_t functions, std::size_t fixed) {
    const std::size_t part = for_clients(all) / functions;
    return part - std::min(part, fixed);
}

} // namespace

// For a limit that cannot be read, uses the default of Linux.
ProcessLimits ProcessLimits::read() {
    ProcessLimits limits{65530, 1024};
    std::ifstream{"/proc/sys/vm/max_map_count"} >> limits.mappings;
    struct rlimit files {};
    if (::getrlimit(RLIMIT_NOFILE, &files) == 0) {
        limits.descriptors = files.rlim_cur;
    }
    return limits;
}

ProcessLimits ProcessLimits::part(std::size_t numerator, std::size_t denominator) const {
    return {mappings * numerator / denominator, descriptors * numerator / denominator};
}

std::size_t map_share(const ProcessLimits& limits, std::size_t functions, std::size_t vectors) {
    const std::size_t by_mappings =
        part_of(limits.mappings, functions, own_mappings + mappings_each * ScratchPages::room) /
        mappings_each;
    const std::size_t by_descriptors =
        part_of(limits.descriptors, functions, own_descriptors + vectors);
    return std::min({ClientMemory::max_maps, by_mappings, by_descriptors});
}

} // namespace vrdma::vfio_user
