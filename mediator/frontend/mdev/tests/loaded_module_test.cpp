// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/frontend/mdev/loaded_module.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace vrdma::mdev {
namespace {

struct LoadedModule : testing::Test {
    std::string directory = "/tmp/vrdma-module-XXXXXX";

    LoadedModule() { EXPECT_NE(::mkdtemp(directory.data()), nullptr); }
    LoadedModule(const LoadedModule&) = delete;
    LoadedModule& operator=(const LoadedModule&) = delete;
    ~LoadedModule() override { std::filesystem::remove_all(directory); }

    void show(const std::string& version) { std::ofstream{directory + "/abi_version"} << version; }
};

TEST_F(LoadedModule, IsNotThere) {
    EXPECT_TRUE(check_module(directory + "/none"));
}

TEST_F(LoadedModule, Fits) {
    show(std::to_string(VRDMA_MDEV_ABI_VERSION) + "\n");
    EXPECT_TRUE(check_module(directory));
}

TEST_F(LoadedModule, HasAnotherVersion) {
    show("4000\n");
    const auto fits = check_module(directory);
    ASSERT_FALSE(fits);
    EXPECT_NE(fits.error().find("interface version 4000"), std::string::npos) << fits.error();
}

TEST_F(LoadedModule, SaysNothing) {
    show("");
    EXPECT_FALSE(check_module(directory));
    std::filesystem::remove(directory + "/abi_version");
    const auto fits = check_module(directory);
    ASSERT_FALSE(fits);
    EXPECT_NE(fits.error().find("interface version unknown"), std::string::npos) << fits.error();
}

} // namespace
} // namespace vrdma::mdev
