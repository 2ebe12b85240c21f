// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/control/owners.h"

#include <gtest/gtest.h>

namespace vrdma::control {
namespace {

constexpr Gid one{1};
constexpr Gid two{2};

TEST(Owners, WhoClaimsHas) {
    Owners owners;
    const auto changes = owners.set(5, {{one, 10}, {two, 10}}).changes;
    ASSERT_EQ(changes.size(), 2u);
    EXPECT_EQ(changes[0].gid, one);
    EXPECT_EQ(changes[0].from, std::nullopt);
    EXPECT_EQ(changes[0].to, 5u);
    EXPECT_EQ(owners.gids_of(5), (std::vector{one, two}));
    EXPECT_TRUE(owners.set(5, {{one, 10}, {two, 10}}).changes.empty());
    ASSERT_EQ(owners.set(5, {{two, 10}}).changes.size(), 1u);
    EXPECT_EQ(owners.owner(one), std::nullopt);
    EXPECT_EQ(owners.owner(two), 5u);
    ASSERT_EQ(owners.set(5, {}).changes.size(), 1u);
    EXPECT_TRUE(owners.gids_of(5).empty());
}

TEST(Owners, TheLaterClaimWins) {
    Owners owners;
    owners.set(5, {{one, 10}, {two, 10}});
    EXPECT_TRUE(owners.set(6, {{two, 9}}).changes.empty());
    EXPECT_TRUE(owners.contested(two));
    EXPECT_TRUE(owners.set(6, {{two, 9}}).added.empty());
    const auto moved = owners.set(6, {{two, 11}}).changes;
    ASSERT_EQ(moved.size(), 1u);
    EXPECT_EQ(moved[0].from, 5u);
    EXPECT_EQ(moved[0].to, 6u);
    EXPECT_EQ(owners.gids_of(5), std::vector{one});
    EXPECT_EQ(owners.gids_of(6), std::vector{two});
    EXPECT_TRUE(owners.set(5, {{one, 10}}).changes.empty()) << "it was not its any more";
    EXPECT_FALSE(owners.contested(two));
    owners.set(5, {{two, 10}});
    const auto back = owners.set(6, {}).changes;
    ASSERT_EQ(back.size(), 1u);
    EXPECT_EQ(back[0].to, 5u);
}

TEST(Owners, AtTheSameTimeTheHigherNumberHas) {
    for (const bool first : {false, true}) {
        Owners owners;
        owners.set(first ? 5 : 6, {{one, 10}});
        owners.set(first ? 6 : 5, {{one, 10}});
        EXPECT_EQ(owners.owner(one), 6u);
    }
}

TEST(Owners, TheConfigurationWins) {
    Owners owners;
    owners.set(0, {{one, Owners::always}});
    EXPECT_TRUE(owners.set(9, {{one, Owners::always - 1}}).changes.empty());
    EXPECT_TRUE(owners.is_fixed(one));
    EXPECT_FALSE(owners.is_fixed(two));
    owners.set(9, {{two, 1}});
    EXPECT_FALSE(owners.is_fixed(two));
}

} // namespace
} // namespace vrdma::control
