// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/wire/fabric/libfabric.h"

#include "mediator/base/library_table.h"

namespace vrdma::wire::fabric {

// libfabric does not support that it is unloaded while its providers have threads.
const tl::expected<const Libfabric*, std::string>& libfabric() {
    static const auto loaded = load_library_table<Libfabric>(VRDMA_LIBFABRIC, "vrdma_libfabric");
    return loaded;
}

} // namespace vrdma::wire::fabric
