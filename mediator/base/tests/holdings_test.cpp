// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/base/holdings.h"

#include <gtest/gtest.h>

namespace vrdma {
namespace {

using Held = std::pair<std::uint64_t, int>;

TEST(Holdings, WhoHoldsTooMuchLosesItsOldest) {
    Holdings<int> holdings{2, 10};
    EXPECT_FALSE(holdings.add(1, 11));
    EXPECT_FALSE(holdings.add(2, 21));
    EXPECT_FALSE(holdings.add(1, 12));
    EXPECT_EQ(holdings.room(1), 0u);
    EXPECT_EQ(holdings.room(2), 1u);
    EXPECT_EQ(holdings.room(3), 2u);
    EXPECT_EQ(holdings.add(1, 13), (Held{1, 11}));
    EXPECT_EQ(holdings.add(1, 14), (Held{1, 12}));
    EXPECT_EQ(holdings.size(), 3u);
}

// When all is full, the holder with the most items makes room, until none has two more than
// another.
TEST(Holdings, WhoHoldsTheMostMakesRoom) {
    Holdings<int> holdings{4, 6};
    for (const int item : {1, 2, 3, 4}) {
        EXPECT_FALSE(holdings.add(1, item));
    }
    EXPECT_FALSE(holdings.add(2, 5));
    EXPECT_FALSE(holdings.add(3, 6));
    EXPECT_EQ(holdings.add(4, 7), (Held{1, 1}));
    EXPECT_EQ(holdings.room(2), 1u);
    EXPECT_EQ(holdings.add(2, 8), (Held{1, 2}));
    EXPECT_EQ(holdings.room(2), 0u) << "as much as the first";
    EXPECT_EQ(holdings.room(3), 0u) << "the first would have less then";
    EXPECT_EQ(holdings.room(5), 1u) << "has nothing";
    EXPECT_EQ(holdings.add(2, 9), (Held{2, 5})) << "now the most, with its new one";
    EXPECT_EQ(holdings.size(), 6u);
}

TEST(Holdings, WhatIsRemovedLeavesRoom) {
    Holdings<int> holdings{2, 2};
    EXPECT_FALSE(holdings.add(1, 11));
    EXPECT_FALSE(holdings.add(1, 12));
    holdings.remove(1, 11);
    holdings.remove(1, 11);
    holdings.remove(7, 11);
    EXPECT_EQ(holdings.size(), 1u);
    EXPECT_EQ(holdings.room(1), 1u);
    holdings.clear();
    EXPECT_EQ(holdings.size(), 0u);
    EXPECT_FALSE(holdings.add(2, 21));
}

// If all hold the same, the last to come gets nothing.
TEST(Holdings, NobodyLosesWhatAnotherHasNotEither) {
    Holdings<int> holdings{1, 2};
    EXPECT_FALSE(holdings.add(1, 11));
    EXPECT_FALSE(holdings.add(2, 21));
    EXPECT_EQ(holdings.room(3), 0u);
    EXPECT_EQ(holdings.add(3, 31), (Held{3, 31}));
    EXPECT_EQ(holdings.size(), 2u);
}

} // namespace
} // namespace vrdma
