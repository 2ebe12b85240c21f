// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/verbs/address_vector.h"

namespace vrdma::verbs {

Result<> check_av(const vrdma_av& av, const GidTable& gids) {
    if (!is_well_formed(av) || !gids.is_set(av.sgid_index)) {
        return fail(std::errc::invalid_argument);
    }
    return {};
}

} // namespace vrdma::verbs
