// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/frontend/mdev/registration.h"

#include <gtest/gtest.h>

#include <vector>

namespace vrdma::mdev {
namespace {

TEST(Registration, SaysWhatTheTypesAre) {
    std::vector<DeviceType> types{{"small", 3, 5 << 20, {}, "wan"}};
    const std::vector<std::string> uplinks{"eth1", "wan"};
    types[0].limits.doorbell_pages = 8;
    types[0].limits.vectors = 2;
    const auto request = registration("vrdma", types, uplinks);
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
    EXPECT_STREQ(request->types[0].uplink, "wan");
    ASSERT_EQ(request->num_uplinks, 2u);
    EXPECT_STREQ(request->uplinks[0], "eth1");
    EXPECT_STREQ(request->uplinks[1], "wan");
}

TEST(Registration, NamesThatDoNotFitAreRefused) {
    const std::vector<DeviceType> types{{"small", 1, 1, {}}};
    EXPECT_TRUE(registration("a-name-of-15-ch", types, {}));
    EXPECT_FALSE(registration("a-name-of-16-chr", types, {}));
    const std::string too_long = "a-name-of-16-chr";
    EXPECT_FALSE(registration("vrdma", std::vector<DeviceType>{{too_long, 1, 1, {}}}, {}));
    EXPECT_FALSE(registration("vrdma", std::vector<DeviceType>{{"small", 1, 1, {}, too_long}}, {}));
    EXPECT_FALSE(registration("vrdma", types, std::vector{too_long}));
}

TEST(Registration, SaysWhatATypeIsToItsGuests) {
    std::vector<DeviceType> types(2, {"small", 1, 5 << 20, {}});
    types[1].personality = PersonalityKind::pvrdma;
    const auto request = registration("vrdma", types, {});
    ASSERT_TRUE(request);
    EXPECT_EQ(request->types[0].personality, VRDMA_MDEV_PERSONALITY_VRDMA);
    EXPECT_EQ(request->types[1].personality, VRDMA_MDEV_PERSONALITY_PVRDMA);
    EXPECT_STREQ(request->types[1].description,
                 "VMware's PVRDMA, 256 QPs, 512 CQs, 2048 MRs, 15 user contexts, 5 MiB pinned");
}

TEST(Registration, OneToSixteenTypes) {
    const DeviceType type{"small", 1, 1, {}};
    EXPECT_FALSE(registration("vrdma", {}, {}));
    EXPECT_TRUE(registration("vrdma", std::vector<DeviceType>(VRDMA_MDEV_MAX_TYPES, type), {}));
    EXPECT_FALSE(
        registration("vrdma", std::vector<DeviceType>(VRDMA_MDEV_MAX_TYPES + 1, type), {}));
}

TEST(Registration, AsManyUplinksAsTheModuleTakes) {
    const std::vector<DeviceType> types{{"small", 1, 1, {}}};
    EXPECT_TRUE(registration("vrdma", types, std::vector<std::string>(64, "eth1")));
    EXPECT_FALSE(registration("vrdma", types, std::vector<std::string>(65, "eth1")));
}

} // namespace
} // namespace vrdma::mdev
