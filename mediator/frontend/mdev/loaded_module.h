// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The kernel module that is loaded, which may be of another release than this vrdmad.
#pragma once

#include <string>
#include <tl/expected.hpp>

#include "vrdma/mdev.h"

namespace vrdma::mdev {

// Fails with a message if the loaded module has another interface. A module that is not loaded is
// loaded when vrdmad starts. The directory is that of its device in sysfs.
tl::expected<void, std::string> check_module(const std::string& directory = VRDMA_MDEV_SYSFS);

} // namespace vrdma::mdev
