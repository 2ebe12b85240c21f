// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/memory/unused_pages.h"

#include <gtest/gtest.h>

namespace vrdma::hca::soft {
namespace {

constexpr std::uint64_t page_bytes = VRDMA_PAGE_SIZE;
constexpr std::uint64_t window = 1ull << 30;

// This memory is never accessed. It only counts released pages.
class CountingMemory final : public GuestMemory {
  public:
    // NOLINTNEXTLINE(performance-no-int-to-ptr): an address that nobody follows
    CountingMemory() : GuestMemory{reinterpret_cast<std::byte*>(window), window, &no_faults} {}

    void release(Iova, std::uint64_t length) noexcept override {
        ++runs;
        bytes += length;
    }

    unsigned runs = 0;
    std::uint64_t bytes = 0;

  private:
    static constexpr std::uint64_t no_faults = 0;
};

class UnusedPagesTest : public ::testing::Test {
  protected:
    GuestBuffer buffer(std::uint64_t pages, std::uint64_t distance) const {
        Translation translation;
        for (std::uint64_t i = 0; i < pages; ++i) {
            translation.blocks.push_back(Iova{(1 + i * distance) * page_bytes});
        }
        translation.length = pages * page_bytes;
        return *GuestBuffer::map(memory_, std::move(translation));
    }

    // Returns the number of steps. Checks that no step releases too many runs.
    unsigned steps() {
        for (unsigned count = 1;; ++count) {
            const unsigned before = memory_.runs;
            const bool more = unused_.give_back(memory_);
            EXPECT_LE(memory_.runs - before,
                      std::max<std::uint64_t>(UnusedPages::step_runs, on_demand_leaf_pages));
            if (!more) {
                return count;
            }
        }
    }

    CountingMemory memory_;
    UnusedPages unused_;
};

// Give back pages that lie apart; expect a fixed number of runs per step, and all of them in the
// end.
TEST_F(UnusedPagesTest, ManyRunsTakeManySteps) {
    unused_.add(buffer(4ull * UnusedPages::step_runs, 2));
    EXPECT_EQ(steps(), 4u);
    EXPECT_EQ(memory_.runs, 4ull * UnusedPages::step_runs);
    EXPECT_EQ(memory_.bytes, 4ull * UnusedPages::step_runs * page_bytes);
    EXPECT_EQ(steps(), 1u);
    EXPECT_EQ(memory_.runs, 4ull * UnusedPages::step_runs);
}

// Give back contiguous pages; expect a fixed number of bytes per step.
TEST_F(UnusedPagesTest, ALongRunTakesManySteps) {
    unused_.add(buffer(3 * UnusedPages::step_bytes / page_bytes, 1));
    EXPECT_EQ(steps(), 3u);
    EXPECT_EQ(memory_.bytes, 3 * UnusedPages::step_bytes);
}

// Give back several small buffers; expect one step for all.
TEST_F(UnusedPagesTest, SmallBuffersShareAStep) {
    for (int i = 0; i < 10; ++i) {
        unused_.add(buffer(3, 2));
    }
    EXPECT_EQ(steps(), 1u);
    EXPECT_EQ(memory_.bytes, 30 * page_bytes);
}

// Unmap all of an on-demand region with four leaves; expect one leaf per step, and each mapped page
// to be released.
TEST_F(UnusedPagesTest, LeavesGoOneByOne) {
    SparsePages region{memory_, 0};
    const std::vector<Iova> pages(4 * on_demand_leaf_pages - 1, Iova{page_bytes});
    auto leaves = SparsePages::prepare(1, pages.size());
    region.map(1, pages, true, leaves);
    auto removed = region.prepare_unmap(0, UINT64_MAX);
    EXPECT_FALSE(region.unmap_some(0, UINT64_MAX, removed));
    unused_.add(std::move(removed));
    EXPECT_EQ(steps(), 4u);
    EXPECT_EQ(memory_.bytes, pages.size() * page_bytes);
    EXPECT_TRUE(region.run(page_bytes, 1, false).empty());
}

} // namespace
} // namespace vrdma::hca::soft
