// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/verbs/address_vector.h"

namespace vrdma::verbs {

Result<> check_av(const vrdma_av& av, const GidTable& gids) {
    return is_well_formed(av) ? gids.check(av.sgid_index) : fail(std::errc::invalid_argument);
}

} // namespace vrdma::verbs
