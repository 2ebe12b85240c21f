// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include <gtest/gtest.h>

#include <vector>

#include "mediator/frontend/mdev/registration.h"

namespace vrdma::mdev {
namespace {

TEST(Registration, SaysWhatTheTypesAre) {
    std::vector<DeviceType> types{{"small", 3, 5 << 20, {}}};
    types[0].limits.doorbell_pages = 8;
    types[0].limits.vectors = 2;
    const auto request = registration("vrdma", types);
    ASSERT_TRUE(request);
    EXPECT_EQ(request->abi_version, VRDMA_MDEV_ABI_VERSION);
    EXPECT_STREQ(request->name, "vrdma");
    ASSERT_EQ(request->num_types, 1u);
    EXPECT_STREQ(request->types[0].name, "small");
    EXPECT_EQ(request->types[0].max_instances, 3u);
    EXPECT_EQ(request->types[0].doorbell_pages, 8u);
    EXPECT_EQ(request->types[0].vectors, 2u);
    EXPECT_EQ(request->types[0].max_pinned, 5u << 20);
    EXPECT_STREQ(request->types[0].description,
                 "256 QPs, 512 CQs, 2048 MRs, 7 user contexts, 5 MiB pinned");
}

TEST(Registration, NamesThatDoNotFitAreRefused) {
    const std::vector<DeviceType> types{{"small", 1, 1, {}}};
    EXPECT_TRUE(registration("a-name-of-15-ch", types));
    EXPECT_FALSE(registration("a-name-of-16-chr", types));
    EXPECT_FALSE(registration("vrdma", std::vector<DeviceType>{{"a-name-of-16-chr", 1, 1, {}}}));
}

TEST(Registration, OneToEightTypes) {
    const DeviceType type{"small", 1, 1, {}};
    EXPECT_FALSE(registration("vrdma", {}));
    EXPECT_TRUE(registration("vrdma", std::vector<DeviceType>(8, type)));
    EXPECT_FALSE(registration("vrdma", std::vector<DeviceType>(9, type)));
}

} // namespace
} // namespace vrdma::mdev
