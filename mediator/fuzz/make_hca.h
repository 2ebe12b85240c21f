// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The soft HCA for fuzz targets: its pollers run only when the target calls them.
#pragma once

#include <memory>

#include "mediator/hca/soft/soft_hca.h"

namespace vrdma::fuzz {

inline std::unique_ptr<hca::soft::SoftHca> make_hca(hca::soft::Config config = {}) {
    config.threads = false;
    return hca::soft::SoftHca::create(config).value();
}

} // namespace vrdma::fuzz
