// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include <gtest/gtest.h>

#include "mediator/frontend/vfio_user/client_memory.h"
#include "mediator/frontend/vfio_user/map_share.h"

namespace vrdma::vfio_user {
namespace {

constexpr ProcessLimits usual{65530, 1 << 20};

// Few functions; expect each to have as many maps as a client can ever have.
TEST(MapShare, IsAllThatAClientCanHave) {
    EXPECT_EQ(map_share(usual, 1, 4), ClientMemory::max_maps);
    EXPECT_EQ(map_share(usual, 4, 4), ClientMemory::max_maps);
}

// More and more functions; expect all of them together, with every map and scratch page lying
// apart, never to need more than the process may have.
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

// What this process may have; expect it to be read.
TEST(MapShare, TheProcesssLimitsAreRead) {
    const auto limits = ProcessLimits::read();
    EXPECT_GT(limits.mappings, 0u);
    EXPECT_GT(limits.descriptors, 0u);
}

} // namespace
} // namespace vrdma::vfio_user
