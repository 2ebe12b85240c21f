// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/frontend/mdev/loaded_module.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>

namespace vrdma::mdev {

tl::expected<void, std::string> check_module(const std::string& directory) {
    std::error_code ignored;
    if (!std::filesystem::exists(directory, ignored)) {
        return {};
    }
    std::string version = "unknown"; // of a module that is older than the file
    std::ifstream{directory + "/abi_version"} >> version;
    if (version == std::to_string(VRDMA_MDEV_ABI_VERSION)) {
        return {};
    }
    return tl::unexpected{
        fmt::format("the kernel module vrdma_mdev that is loaded has interface version {}, and "
                    "this vrdmad needs {}: install the "
                    "module of this release (vrdma-host-dkms), end the VMs that have its devices, "
                    "and load it anew",
                    version, VRDMA_MDEV_ABI_VERSION)};
}

} // namespace vrdma::mdev
