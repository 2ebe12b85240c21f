// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/verbs/address_vector.h"

#include <algorithm>

namespace vrdma::verbs {
namespace {

constexpr std::uint32_t max_flow_label = 0xfffff;
constexpr std::uint8_t max_sl = 15;

} // namespace

bool is_well_formed(const vrdma_av& av) {
    const bool has_dgid = std::ranges::any_of(av.dgid, [](std::uint8_t byte) { return byte != 0; });
    return has_dgid && av.reserved == 0 && av.port_num == port_number && av.sl <= max_sl &&
           av.flow_label <= max_flow_label;
}

Result<> check_av(const vrdma_av& av, const GidTable& gids) {
    if (!is_well_formed(av) || !gids.is_set(av.sgid_index)) {
        return fail(std::errc::invalid_argument);
    }
    return {};
}

} // namespace vrdma::verbs
