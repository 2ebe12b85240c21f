// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// libfabric's functions, in a module of ours that is loaded when it is needed. Libraries of
// libfabric's providers measure the processor's clock while they are loaded, for 0.2 s. A vrdmad
// without fabrics would be away longer for that whenever it is restarted.
#pragma once

#include <rdma/fabric.h>

#include <string>

#include "mediator/base/result.h"

namespace vrdma::wire::fabric {

// The module's only symbol, `vrdma_libfabric`. The linker binds the functions to the versions that
// belong to the structs of these headers, as dlsym() could not.
struct Libfabric {
    decltype(&::fi_dupinfo) dupinfo;
    decltype(&::fi_freeinfo) freeinfo;
    decltype(&::fi_getinfo) getinfo;
    decltype(&::fi_fabric) fabric;
};

// Loads the module at the first call. Afterwards it takes no files. The error is for people.
const tl::expected<const Libfabric*, std::string>& libfabric();

} // namespace vrdma::wire::fabric
