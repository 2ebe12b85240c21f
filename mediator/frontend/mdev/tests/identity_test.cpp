// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/frontend/mdev/identity.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

namespace vrdma::mdev {
namespace {

constexpr std::array<std::uint8_t, 16> uuid{0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde, 0xf0,
                                            0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef};

const DeviceType small{"small", 1, 1, {}};

vrdma_mdev_device_info info_with(const char* addresses) {
    vrdma_mdev_device_info info{};
    std::memcpy(info.uuid, uuid.data(), uuid.size());
    std::memcpy(info.addresses, addresses, std::strlen(addresses));
    return info;
}

TEST(Identity, UuidsReadAsPeopleWriteThem) {
    EXPECT_EQ(uuid_text(uuid), "12345678-9abc-def0-0123-456789abcdef");
}

TEST(Identity, WithoutAMacItFollowsFromTheUuid) {
    const auto mac = identity_of(info_with(""), small).mac;
    EXPECT_EQ(mac[0], 0x02); // locally administered, unicast
    EXPECT_EQ(mac, verbs::derived_mac(uuid));
    auto other = uuid;
    other[15] ^= 1;
    EXPECT_NE(mac, verbs::derived_mac(other));
}

TEST(Identity, AMacThatIsSetCounts) {
    auto info = info_with("");
    const verbs::Mac mac{0x52, 0x54, 0, 0x12, 0x34, 0x56};
    std::memcpy(info.mac, mac.data(), mac.size());
    EXPECT_EQ(identity_of(info, small).mac, mac);
}

TEST(Identity, TheUplinkIsTheTypes) {
    EXPECT_EQ(identity_of(info_with(""), small).uplink, "");
    const DeviceType bound{"bound", 1, 1, {}, "wan"};
    EXPECT_EQ(identity_of(info_with(""), bound).uplink, "wan");
}

TEST(Identity, AnUplinkThatIsSetCounts) {
    const DeviceType bound{"bound", 1, 1, {}, "wan"};
    auto info = info_with("");
    std::memcpy(info.uplink, "lan", 3);
    EXPECT_EQ(identity_of(info, bound).uplink, "wan") << "nobody set it";
    info.uplink_set = 1;
    EXPECT_EQ(identity_of(info, bound).uplink, "lan");
    info.uplink[0] = '\0';
    EXPECT_EQ(identity_of(info, bound).uplink, "") << "none, as the administrator says";
}

TEST(Identity, ItsVlansAreTheTypes) {
    DeviceType bound{"bound", 1, 1, {}, "wan"};
    bound.vlans.set(7);
    EXPECT_EQ(identity_of(info_with(""), bound).vlans, bound.vlans);
}

TEST(Identity, VlansThatAreSetCount) {
    DeviceType bound{"bound", 1, 1, {}, "wan"};
    bound.vlans.set(7);
    auto info = info_with("");
    info.vlans[0] = 1U << 1 | 1U << 0;
    info.vlans[VRDMA_MAX_VLAN / 64] = std::uint64_t{1} << VRDMA_MAX_VLAN % 64;
    EXPECT_EQ(identity_of(info, bound).vlans, bound.vlans) << "nobody set them";
    info.vlans_set = 1;
    verbs::Vlans set;
    set.set(1).set(VRDMA_MAX_VLAN);
    EXPECT_EQ(identity_of(info, bound).vlans, set);
    info.uplink_set = 1;
    std::memcpy(info.uplink, "lan", 3);
    EXPECT_EQ(identity_of(info, bound).vlans, set) << "of that uplink, as the administrator says";
    std::ranges::fill(info.vlans, ~std::uint64_t{0});
    EXPECT_EQ(identity_of(info, bound).vlans.count(), std::size_t{VRDMA_MAX_VLAN}) << "0 is none";
    std::ranges::fill(info.vlans, 0);
    EXPECT_TRUE(identity_of(info, bound).vlans.none());
}

TEST(Identity, ItsTrafficClassesAreTheTypes) {
    DeviceType bound{"bound", 1, 1, {}, "wan"};
    bound.traffic_classes.set(26);
    bound.service_levels.set(5);
    bound.pkeys = {0x8001, 0xffff};
    EXPECT_EQ(identity_of(info_with(""), bound).pkeys, bound.pkeys);
    bound.port_speed = {.speed = 64, .width = 1};
    EXPECT_EQ(identity_of(info_with(""), bound).service_levels, bound.service_levels);
    EXPECT_EQ(identity_of(info_with(""), bound).port_speed, bound.port_speed);
    EXPECT_EQ(identity_of(info_with(""), bound).traffic_classes, bound.traffic_classes);
    auto elsewhere = info_with("");
    elsewhere.uplink_set = 1;
    std::memcpy(elsewhere.uplink, "lan", 3);
    EXPECT_TRUE(identity_of(elsewhere, bound).traffic_classes.none());
    EXPECT_TRUE(identity_of(elsewhere, bound).service_levels.none());
    EXPECT_EQ(identity_of(elsewhere, bound).port_speed, bound.port_speed);
    EXPECT_TRUE(identity_of(elsewhere, bound).vlans.none());
}

TEST(Identity, Addresses) {
    EXPECT_TRUE(identity_of(info_with(""), small).prefixes_valid);
    EXPECT_TRUE(identity_of(info_with(""), small).prefixes.empty());
    EXPECT_EQ(identity_of(info_with("10.0.0.5/32,fd00::/64"), small).prefixes.size(), 2u);
    EXPECT_FALSE(identity_of(info_with("10.0.0.5/32,nonsense"), small).prefixes_valid);
}

TEST(Share, IsTheTypes) {
    DeviceType type{"limited", 1, 1, {}};
    type.share = {7, 8, 9};
    EXPECT_EQ(share_of(info_with(""), type), type.share);
}

TEST(Share, WhatIsSetCountsInItsPlace) {
    DeviceType type{"limited", 1, 1, {}};
    type.share = {7, 8, 9};
    auto info = info_with("");
    info.share.values[VRDMA_MDEV_SHARE_WEIGHT] = 70;
    info.share.values[VRDMA_MDEV_SHARE_MAX_OPERATIONS] = 90;
    info.share.set = 1U << VRDMA_MDEV_SHARE_WEIGHT;
    EXPECT_EQ(share_of(info, type), (hca::Share{70, 8, 9}));
    info.share.set = 1U << VRDMA_MDEV_SHARE_MAX_OPERATIONS;
    EXPECT_EQ(share_of(info, type), (hca::Share{7, 8, 90}));
    info.share.set = 1U << VRDMA_MDEV_SHARE_MAX_BYTES;
    EXPECT_EQ(share_of(info, type), (hca::Share{7, 0, 9})) << "no limit, as the administrator says";
}

TEST(Share, AWeightIsBounded) {
    auto info = info_with("");
    info.share.set = 1U << VRDMA_MDEV_SHARE_WEIGHT;
    EXPECT_EQ(share_of(info, small).weight, 1u);
    info.share.values[VRDMA_MDEV_SHARE_WEIGHT] = UINT64_MAX;
    EXPECT_EQ(share_of(info, small).weight, hca::Share::max_weight);
}

TEST(Identity, TextsWithoutAnEndAreBounded) {
    auto info = info_with("");
    std::memset(info.addresses, 'x', sizeof(info.addresses));
    std::memset(info.uplink, 'x', sizeof(info.uplink));
    info.uplink_set = 1;
    EXPECT_FALSE(identity_of(info, small).prefixes_valid);
    EXPECT_EQ(identity_of(info, small).uplink, std::string(VRDMA_MDEV_UPLINK_SIZE, 'x'));
}

} // namespace
} // namespace vrdma::mdev
