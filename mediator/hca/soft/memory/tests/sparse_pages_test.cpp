// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The time of a poller that it takes to unmap on-demand pages.
#include "mediator/hca/soft/memory/sparse_pages.h"

#include <gtest/gtest.h>

#include "mediator/memory/arena_memory.h"

namespace vrdma::hca::soft {
namespace {

class SparsePagesTest : public ::testing::Test {
  protected:
    static constexpr std::uint64_t step = SparsePages::step_leaves;
    static constexpr std::uint64_t leaf_pages = on_demand_leaf_pages;

    // Maps a page of each leaf.
    void map(std::uint64_t leaves) {
        for (std::uint64_t i = 0; i < leaves; ++i) {
            auto prepared = SparsePages::prepare(i * leaf_pages, 1);
            region_.map(i * leaf_pages, std::vector{Iova{VRDMA_PAGE_SIZE}}, true, prepared);
        }
    }
    bool is_mapped(std::uint64_t page) const {
        return !region_.run(page * VRDMA_PAGE_SIZE, 1, false).empty();
    }

    std::unique_ptr<ArenaMemory> memory_ = *ArenaMemory::create(1 << 20);
    SparsePages region_{*memory_, 0};
};

// Unmap all of a large region; expect each step to unmap a fixed number of leaves, and all to be
// unmapped in the end.
TEST_F(SparsePagesTest, UnmapsInSteps) {
    map(3 * step + 1);
    auto removed = region_.prepare_unmap(0, UINT64_MAX);
    for (std::uint64_t steps = 1; steps <= 3; ++steps) {
        EXPECT_TRUE(region_.unmap_some(0, UINT64_MAX, removed));
        EXPECT_EQ(removed.leaves.size(), steps * step);
    }
    EXPECT_FALSE(region_.unmap_some(0, UINT64_MAX, removed));
    EXPECT_EQ(removed.leaves.size(), 3 * step + 1);
    EXPECT_FALSE(is_mapped(0));
}

// Unmap a page of a large region, and then one whole leaf with parts of its neighbours; expect one
// step, and no other page to be unmapped.
TEST_F(SparsePagesTest, AShortRangeTakesOneStep) {
    map(3 * step);
    auto removed = region_.prepare_unmap(leaf_pages, 1);
    EXPECT_FALSE(region_.unmap_some(leaf_pages, 1, removed));
    EXPECT_EQ(removed.pages.size(), 1u);
    EXPECT_TRUE(is_mapped(0));
    EXPECT_FALSE(is_mapped(leaf_pages));
    EXPECT_TRUE(is_mapped(2 * leaf_pages));
    removed = region_.prepare_unmap(2 * leaf_pages - 1, leaf_pages + 2);
    EXPECT_EQ(removed.next.size(), 3u);
    EXPECT_FALSE(region_.unmap_some(2 * leaf_pages - 1, leaf_pages + 2, removed));
    EXPECT_EQ(removed.leaves.size(), 1u);
    EXPECT_EQ(removed.pages.size(), 1u);
    EXPECT_TRUE(is_mapped(0));
    EXPECT_FALSE(is_mapped(2 * leaf_pages));
    EXPECT_FALSE(is_mapped(3 * leaf_pages));
    EXPECT_TRUE(is_mapped(4 * leaf_pages));
}

} // namespace
} // namespace vrdma::hca::soft
