// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/frontend/vfio_user/map_share.h"

#include <gtest/gtest.h>

#include "mediator/frontend/vfio_user/client_memory.h"

namespace vrdma::vfio_user {
namespace {

constexpr ProcessLimits usual{65530, 1 << 20};

// With few functions, each client has the most maps that a client can have.
TEST(MapShare, IsAllThatAClientCanHave) {
    EXPECT_EQ(map_share(usual, 1, 4), ClientMemory::max_maps);
    EXPECT_EQ(map_share(usual, 4, 4), ClientMemory::max_maps);
}

// Increase the number of functions; expect that all of them together, with every map and scratch
// page lying apart, never need more than the process may have.
TEST(MapShare, AllClientsTogetherFit) {
    for (const ProcessLimits limits :
         {usual, ProcessLimits{65530, 1024}, ProcessLimits{4096, 64}}) {
        for (std::size_t functions = 1; functions < 80; ++functions) {
            const std::size_t maps = map_share(limits, functions, 4);
            if (maps != 0) {
                EXPECT_LT(functions * 2 * (maps + ScratchPages::room), limits.mappings);
                EXPECT_LT(functions * (maps + 4), limits.descriptors);
            }
        }
    }
}

// Divide the limits between two kinds of clients; expect the parts to be at most the whole, and
// more clients of one kind to take nothing from the other kind.
TEST(MapShare, KindsOfClientsHaveParts) {
    const auto one = usual.part(1, 3);
    const auto other = usual.part(2, 3);
    EXPECT_EQ(one.mappings, 21843u);
    EXPECT_LE(one.mappings + other.mappings, usual.mappings);
    EXPECT_LE(one.descriptors + other.descriptors, usual.descriptors);
    EXPECT_GT(map_share(one, 1, 4), map_share(one, 8, 4));
}

// Read the limits of this process; expect values.
TEST(MapShare, TheProcesssLimitsAreRead) {
    const auto limits = ProcessLimits::read();
    EXPECT_GT(limits.mappings, 0u);
    EXPECT_GT(limits.descriptors, 0u);
}

} // namespace
} // namespace vrdma::vfio_user
