// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/transport/roce/psn.h"

#include <gtest/gtest.h>

namespace vrdma::hca::soft::roce {
namespace {

// Compare PSNs across the wrap-around; expect the distance ahead or behind. A distance of half of
// all PSNs is ahead, because the longest READ ends that far from its beginning.
TEST(Psn, DistancesWrap) {
    constexpr std::int32_t half = 1 << 23;
    EXPECT_EQ(distance(5, 5), 0);
    EXPECT_EQ(distance(psn_mask, 1), 2);
    EXPECT_EQ(distance(1, psn_mask), -2);
    EXPECT_EQ(distance(7, 7 + half - 1), half - 1);
    EXPECT_EQ(distance(7, 7 + half), half);
    EXPECT_EQ(distance(7 + half, 7), half);
    EXPECT_EQ(distance(7, 8 + half), -(half - 1));
    EXPECT_EQ(packets_of(std::uint64_t{1} << 31, 256), static_cast<std::uint32_t>(half));
}

} // namespace
} // namespace vrdma::hca::soft::roce
