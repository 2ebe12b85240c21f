// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/wire/fabric/libfabric.h"

#include <dlfcn.h>

namespace vrdma::wire::fabric {
namespace {

tl::expected<const Libfabric*, std::string> load_module() {
    // It stays: libfabric does not support that it is unloaded while its providers have threads.
    void* const module = ::dlopen(VRDMA_LIBFABRIC, RTLD_NOW | RTLD_LOCAL);
    const void* const table = module != nullptr ? ::dlsym(module, "vrdma_libfabric") : nullptr;
    if (table == nullptr) {
        return tl::unexpected{std::string{::dlerror()}};
    }
    return static_cast<const Libfabric*>(table);
}

} // namespace

const tl::expected<const Libfabric*, std::string>& libfabric() {
    static const auto loaded = load_module();
    return loaded;
}

} // namespace vrdma::wire::fabric
