// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include <vector>

#include "mediator/base/step_time.h"
#include "mediator/tests/guest/revocable_memory.h"
#include "mediator/verbs/tests/verbs_test.h"

namespace vrdma::verbs {
namespace {

constexpr std::uint64_t page_size = VRDMA_PAGE_SIZE;

class PageListTest : public VerbsTest {
  protected:
    Result<Buffer> read(const vrdma_page_list& list, std::uint64_t length,
                        std::uint64_t first_offset = 0) {
        return read(*memory, budget, list, first_offset, length);
    }

    static Result<Buffer> read(GuestMemory& memory, MemoryBudget& budget,
                               const vrdma_page_list& list, std::uint64_t first_offset,
                               std::uint64_t length) {
        auto reader = PageListReader::begin(memory, budget, list, first_offset, length);
        auto more = reader ? reader->step() : fail(reader.error());
        while (more && *more) {
            more = reader->step();
        }
        return more.map([&](bool) { return reader->take(); });
    }

    // Makes a list of a buffer as a guest does, and expects its blocks to be read from the list.
    void expect_contiguous(std::uint64_t length, unsigned shift, unsigned min_levels) {
        const Iova begin = allocator.allocate(length, 1ull << shift);
        const auto buffer = read(allocator.page_list(begin, length, shift, min_levels), length);
        ASSERT_TRUE(buffer);
        std::uint64_t expected = raw(begin);
        for (const Iova block : buffer->pages.blocks) {
            ASSERT_EQ(raw(block), expected);
            expected += 1ull << shift;
        }
        EXPECT_GE(expected, raw(begin) + length);
    }

    // Returns the first entry of a list's root.
    std::uint64_t* entries_of(const vrdma_page_list& list) {
        return allocator.at<std::uint64_t>(Iova{list.root});
    }

    MemoryBudget budget{1 << 20};
};

// Memory of which reading one page exceeds the time of a step.
class SlowMemory final : public GuestMemory {
  public:
    explicit SlowMemory(const GuestMemory& memory)
        : GuestMemory{memory.at(Iova{0}, 0), memory.size(), &no_faults} {}

    void release(Iova, std::uint64_t) noexcept override {
        const StepTime time;
        while (!time.over()) {
        }
    }

  private:
    static constexpr std::uint64_t no_faults = 0;
};

// Read four pages of blocks from slow memory; expect one step for each.
TEST_F(PageListTest, AStepEndsWhenItsTimeIsOver) {
    SlowMemory slow{*memory};
    constexpr std::uint64_t pages_of_blocks = 4;
    constexpr std::uint64_t length = pages_of_blocks * VRDMA_PAGE_LIST_ENTRIES * page_size;
    const auto list = allocator.page_list(Iova{arena_size / 2}, length);
    auto reader = PageListReader::begin(slow, budget, list, 0, length);
    ASSERT_TRUE(reader);
    for (std::uint64_t left = pages_of_blocks; left > 0; --left) {
        EXPECT_EQ(reader->step(), Result<bool>{left > 1});
    }
}

TEST_F(PageListTest, OneBlockNeedsNoLevel) {
    expect_contiguous(page_size, 12, 0);
}

TEST_F(PageListTest, EachNumberOfLevels) {
    expect_contiguous(10 * page_size, 12, 1);
    expect_contiguous(513 * page_size, 12, 2);
    expect_contiguous(page_size, 12, 3);
}

// Read more blocks than a page of the second level leads to, in several steps. First all blocks are
// adjacent, and then the second step begins at another place.
TEST_F(PageListTest, AListOfSeveralStepsIsReadAsOne) {
    constexpr std::uint64_t entries = VRDMA_PAGE_LIST_ENTRIES;
    constexpr std::uint64_t count = entries * entries + 3;
    constexpr Iova begin{arena_size / 2}; // memory that nobody touches
    const auto list = allocator.page_list(begin, count * page_size);
    ASSERT_EQ(list.levels, 3);
    const auto buffer = read(list, count * page_size);
    ASSERT_TRUE(buffer);
    ASSERT_EQ(buffer->pages.blocks.size(), count);
    for (std::uint64_t i = 0; i < count; ++i) {
        ASSERT_EQ(buffer->pages.blocks[i], begin + i * page_size) << i;
    }
    EXPECT_EQ(buffer->pages.order, hca::Translation::Order::adjacent);

    auto* const second = allocator.at<std::uint64_t>(Iova{*entries_of(list)});
    auto* const blocks = allocator.at<std::uint64_t>(
        Iova{second[PageListReader::step_pages]}); // the first that the second step reads
    blocks[0] = page_size;
    const auto apart = read(list, count * page_size);
    ASSERT_TRUE(apart);
    EXPECT_EQ(apart->pages.blocks[PageListReader::step_blocks], Iova{page_size});
    EXPECT_EQ(apart->pages.order, hca::Translation::Order::scattered);
}

TEST_F(PageListTest, HugeBlocks) {
    expect_contiguous(3ull << 21, 21, 1);
    expect_contiguous(2ull << 30, 30, 1);
}

TEST_F(PageListTest, AHugeBlockMayBeginAtTheBottom) {
    const auto buffer = read({0, 1, 21, 0, 0}, page_size, page_size);
    ASSERT_TRUE(buffer);
    EXPECT_EQ(buffer->pages.blocks, hca::Blocks{Iova{0}});
}

TEST_F(PageListTest, AContiguousRunIsItsBlocks) {
    const Iova begin = allocator.allocate(3 * page_size);
    const auto buffer = read({raw(begin), 3, 12, 0, 0}, 3 * page_size);
    ASSERT_TRUE(buffer);
    EXPECT_EQ(buffer->pages.blocks, (hca::Blocks{begin, begin + page_size, begin + 2 * page_size}));
}

TEST_F(PageListTest, ABufferMayBeginAndEndWithinBlocks) {
    const Iova begin = allocator.allocate(2 * page_size);
    const auto buffer = read({raw(begin), 2, 12, 0, 0}, page_size, 100);
    ASSERT_TRUE(buffer);
    EXPECT_EQ(buffer->pages.first_offset, 100u);
    EXPECT_EQ(buffer->pages.length, page_size);
}

TEST_F(PageListTest, CountMustFitTheLength) {
    auto list = pages(4 * page_size);
    EXPECT_EQ(error_of(read(list, 3 * page_size)), std::errc::invalid_argument);
    EXPECT_EQ(error_of(read(list, 4 * page_size + 1)), std::errc::invalid_argument);
    EXPECT_EQ(error_of(read(list, 4 * page_size, 1)), std::errc::invalid_argument);
    list.count = 0;
    EXPECT_EQ(error_of(read(list, 0)), std::errc::invalid_argument);
}

TEST_F(PageListTest, LengthMustNotOverflow) {
    const auto list = pages(page_size);
    EXPECT_EQ(error_of(read(list, ~0ull)), std::errc::invalid_argument);
    EXPECT_EQ(error_of(read(list, ~0ull - page_size, 4095)), std::errc::invalid_argument);
}

TEST_F(PageListTest, FirstOffsetLiesInTheFirstBlock) {
    EXPECT_EQ(error_of(read(pages(2 * page_size), page_size, page_size)),
              std::errc::invalid_argument);
}

TEST_F(PageListTest, FieldsHaveRanges) {
    const auto good = pages(page_size);
    auto list = good;
    list.reserved = 1;
    EXPECT_EQ(error_of(read(list, page_size)), std::errc::invalid_argument);
    list = good;
    list.levels = 4;
    EXPECT_EQ(error_of(read(list, page_size)), std::errc::invalid_argument);
    for (const std::uint8_t shift : {0, 11, 31, 255}) {
        list = good;
        list.page_shift = shift;
        EXPECT_EQ(error_of(read(list, page_size)), std::errc::invalid_argument) << int{shift};
    }
}

TEST_F(PageListTest, TooFewLevelsAreRefused) {
    auto list = pages(513 * page_size);
    ASSERT_EQ(list.levels, 2);
    list.levels = 1;
    EXPECT_EQ(error_of(read(list, 513 * page_size)), std::errc::invalid_argument);
}

TEST_F(PageListTest, BlocksAreAlignedAndInTheWindow) {
    for (const std::uint64_t bad : std::vector<std::uint64_t>{
             0, 0x1001, arena_size, arena_size - page_size + 1, ~0ull << 12}) {
        const auto list = pages(2 * page_size);
        entries_of(list)[1] = bad;
        EXPECT_EQ(error_of(read(list, 2 * page_size)), std::errc::bad_address) << bad;
    }
}

TEST_F(PageListTest, TheRootIsAlignedAndInTheWindow) {
    for (const std::uint64_t bad : std::vector<std::uint64_t>{0, 0x1008, arena_size}) {
        auto list = pages(2 * page_size);
        list.root = bad;
        EXPECT_EQ(error_of(read(list, 2 * page_size)), std::errc::bad_address) << bad;
    }
}

TEST_F(PageListTest, UnusedEntriesAreZero) {
    const auto list = pages(2 * page_size);
    entries_of(list)[2] = page_size;
    EXPECT_EQ(error_of(read(list, 2 * page_size)), std::errc::invalid_argument);
}

TEST_F(PageListTest, TheBudgetBoundsAllTogether) {
    MemoryBudget small{5};
    const auto list = pages(3 * page_size);
    auto first = read(*memory, small, list, 0, 3 * page_size);
    ASSERT_TRUE(first);
    EXPECT_EQ(error_of(read(*memory, small, list, 0, 3 * page_size)), std::errc::not_enough_memory);
    first = Buffer{};
    EXPECT_TRUE(read(*memory, small, list, 0, 3 * page_size));
}

TEST_F(PageListTest, AHugeCountCostsNothing) {
    MemoryBudget endless{~0ull >> 8};
    const vrdma_page_list list{page_size, 0xffffffff, 12, 3, 0};
    EXPECT_EQ(error_of(read(*memory, endless, list, 0, 0xffffffffull << 12)),
              std::errc::not_enough_memory);
    EXPECT_EQ(error_of(read({page_size, 0xffffffff, 12, 3, 0}, 0xffffffffull << 12)),
              std::errc::not_enough_memory);
}

// A guest names pages that it does not have, for which the window shows scratch pages.
TEST_F(PageListTest, PagesThatTheGuestDoesNotHaveAreRefused) {
    test::RevocableMemory holes{memory->size()};
    holes.revoke(Iova{0}, holes.size());
    EXPECT_EQ(error_of(read(holes, budget, pages(2 * page_size), 0, 2 * page_size)),
              std::errc::bad_address);
    EXPECT_GT(holes.scratch_faults(), 0u);
}

TEST_F(PageListTest, RoundTrip) {
    const Iova begin = allocator.allocate(3 * page_size);
    const auto buffer = read(allocator.page_list(begin, 2 * page_size + 5), 2 * page_size + 5);
    StateWriter writer;
    save_pages(writer, buffer->pages);
    const auto image = writer.take();
    StateReader reader{image};
    const auto restored = restore_pages(reader, *memory, budget, 2 * page_size + 5);
    ASSERT_TRUE(restored);
    EXPECT_EQ(restored->pages.blocks, buffer->pages.blocks);
    StateReader again{image};
    EXPECT_EQ(error_of(restore_pages(again, *memory, budget, 4 * page_size)),
              std::errc::invalid_argument);
}

TEST_F(PageListTest, RestoreRefusesBlocksOutsideTheWindow) {
    const auto buffer = read(pages(page_size), page_size);
    hca::Translation bad = buffer->pages;
    bad.blocks = {Iova{arena_size}};
    StateWriter writer;
    save_pages(writer, bad);
    const auto image = writer.take();
    StateReader reader{image};
    EXPECT_EQ(error_of(restore_pages(reader, *memory, budget, page_size)), std::errc::bad_address);
}

hca::Blocks moved_from(hca::Blocks& blocks) {
    return std::move(blocks);
}
void assign_from(hca::Blocks& to, hca::Blocks& from) {
    to = std::move(from);
}

// Move from blocks; expect the source to be empty, and to get new room when it is filled again.
TEST(Blocks, WhatWasMovedFromHasNone) {
    const hca::Blocks other{Iova{2 * page_size}};
    hca::Blocks first{Iova{page_size}};
    hca::Blocks second = moved_from(first);
    hca::Blocks third;
    assign_from(third, second);
    for (hca::Blocks* const left : {&first, &second}) {
        EXPECT_TRUE(left->empty());
        EXPECT_EQ(left->capacity(), 0u);
        left->push_back(other.front());
        EXPECT_EQ(*left, other);
    }
    EXPECT_EQ(third, hca::Blocks{Iova{page_size}});
}

} // namespace
} // namespace vrdma::verbs
