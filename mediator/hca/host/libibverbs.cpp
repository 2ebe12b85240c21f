// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/host/libibverbs.h"

#include <dlfcn.h>

namespace vrdma::hca::host {
namespace {

tl::expected<const Libibverbs*, std::string> load_module() {
    // It stays: contexts may outlive whoever asked for it.
    void* const module = ::dlopen(VRDMA_LIBIBVERBS, RTLD_NOW | RTLD_LOCAL);
    const void* const table = module != nullptr ? ::dlsym(module, "vrdma_libibverbs") : nullptr;
    if (table == nullptr) {
        return tl::unexpected{std::string{::dlerror()}};
    }
    return static_cast<const Libibverbs*>(table);
}

} // namespace

const tl::expected<const Libibverbs*, std::string>& libibverbs() {
    static const auto loaded = load_module();
    return loaded;
}

} // namespace vrdma::hca::host
