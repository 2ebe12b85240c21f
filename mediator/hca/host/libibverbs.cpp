// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/host/libibverbs.h"

#include "mediator/base/library_table.h"

namespace vrdma::hca::host {

// Contexts may outlive whoever asked for the module.
const tl::expected<const Libibverbs*, std::string>& libibverbs() {
    static const auto loaded = load_library_table<Libibverbs>(VRDMA_LIBIBVERBS, "vrdma_libibverbs");
    return loaded;
}

} // namespace vrdma::hca::host
