// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/memory/guest_buffer.h"

#include <gtest/gtest.h>

#include <thread>

#include "mediator/base/step_time.h"
#include "mediator/memory/arena_memory.h"
#include "mediator/memory/tests/snare.h"

namespace vrdma::hca::soft {
namespace {

constexpr std::uint64_t page = VRDMA_PAGE_SIZE;

class GuestBufferTest : public ::testing::Test {
  protected:
    Translation pages(const std::vector<std::uint64_t>& numbers, std::uint64_t first_offset,
                      std::uint64_t length) {
        Translation translation;
        for (const std::uint64_t number : numbers) {
            translation.blocks.push_back(Iova{number * page});
        }
        translation.first_offset = first_offset;
        translation.length = length;
        return translation;
    }

    std::uint64_t place(const std::byte* data) const {
        return static_cast<std::uint64_t>(data - memory_->at(Iova{0}, 0));
    }

    std::unique_ptr<ArenaMemory> memory_ = std::move(*ArenaMemory::create(64 * page));
};

// Pages 5, 6, 9, 2 from byte 100 on; expect runs to end at non-adjacent pages, at the limit and at
// the buffer's end.
TEST_F(GuestBufferTest, RunsJoinAdjacentBlocks) {
    const auto buffer = GuestBuffer::map(*memory_, pages({5, 6, 9, 2}, 100, 3 * page));
    ASSERT_TRUE(buffer);
    EXPECT_EQ(place(buffer->at(0)), 5 * page + 100);
    EXPECT_EQ(place(buffer->at(2 * page)), 9 * page + 100);
    const auto first = buffer->run(0, 3 * page);
    EXPECT_EQ(place(first.data()), 5 * page + 100);
    EXPECT_EQ(first.size(), 2 * page - 100);
    EXPECT_EQ(buffer->run(0, 10).size(), 10u);
    EXPECT_EQ(buffer->run(2 * page - 100, 3 * page).size(), page);
    const auto last = buffer->run(3 * page - 100, 3 * page);
    EXPECT_EQ(place(last.data()), 2 * page);
    EXPECT_EQ(last.size(), 100u);
}

// Adjacent pages; expect one run, in blocks of any size.
TEST_F(GuestBufferTest, ContiguousIsOneRun) {
    auto buffer = GuestBuffer::map(*memory_, pages({5, 6, 7}, 8, 3 * page - 8));
    EXPECT_EQ(buffer->run(4, 3 * page).size(), 3 * page - 12);
    Translation large = pages({16, 32}, 0, 32 * page);
    large.block_shift = VRDMA_PAGE_SHIFT + 4;
    buffer = GuestBuffer::map(*memory_, large);
    EXPECT_EQ(buffer->run(page, 100 * page).size(), 31 * page);
}

// Touch pages, the first of which takes longer than a step may; expect the step to end after it.
TEST_F(GuestBufferTest, AStepOfTouchesEndsWhenItsTimeIsOver) {
    const auto buffer = GuestBuffer::map(*memory_, pages({5, 6, 9, 2}, 0, 4 * page));
    std::optional<test::Snare> snare{std::in_place, memory_->at(Iova{0}, 0), memory_->size()};
    std::uint64_t offset = 0;
    std::thread touches{[&] { EXPECT_TRUE(buffer->populate(*memory_, offset, UINT64_MAX)); }};
    const std::uint64_t first = snare->caught();
    const StepTime time;
    while (!time.over()) {
    }
    snare->let_go(first);
    snare.reset();
    touches.join();
    EXPECT_EQ(offset, page);
}

// Only the bytes in use must lie in the guest's memory: a large last block may reach beyond it.
TEST_F(GuestBufferTest, LastBlockMayReachBeyondMemory) {
    Translation large = pages({48}, 0, 16 * page);
    large.block_shift = VRDMA_PAGE_SHIFT + 4;
    EXPECT_TRUE(GuestBuffer::map(*memory_, large));
    large.blocks = {Iova{0}};
    large.block_shift = VRDMA_PAGE_SHIFT + 7;
    large.length = 64 * page;
    EXPECT_TRUE(GuestBuffer::map(*memory_, large));
    large.length = 64 * page + 1;
    EXPECT_EQ(GuestBuffer::map(*memory_, large).error(), std::errc::bad_address);
}

// Pages outside, misaligned and missing, offsets and lengths that do not fit; expect errors.
TEST_F(GuestBufferTest, RefusesWhatDoesNotFit) {
    const auto error = [&](const Translation& translation) {
        const auto buffer = GuestBuffer::map(*memory_, translation);
        return buffer ? std::errc{} : buffer.error();
    };
    EXPECT_EQ(error(pages({64}, 0, 1)), std::errc::bad_address);
    EXPECT_EQ(error(pages({~0ull >> 12}, 0, page)), std::errc::bad_address);
    EXPECT_EQ(error(pages({}, 0, 1)), std::errc::invalid_argument);
    EXPECT_EQ(error(pages({1}, 0, 0)), std::errc::invalid_argument);
    EXPECT_EQ(error(pages({1}, 1, page)), std::errc::invalid_argument);
    EXPECT_EQ(error(pages({1}, page, 1)), std::errc::invalid_argument);
    EXPECT_EQ(error(pages({1}, 0, ~0ull)), std::errc::invalid_argument);
    Translation misaligned = pages({1}, 0, 1);
    misaligned.blocks = {Iova{page + 1}};
    EXPECT_EQ(error(misaligned), std::errc::invalid_argument);
    misaligned = pages({0}, 0, 1);
    misaligned.block_shift = 11;
    EXPECT_EQ(error(misaligned), std::errc::invalid_argument);
    misaligned.block_shift = 64;
    EXPECT_EQ(error(misaligned), std::errc::invalid_argument);
}

} // namespace
} // namespace vrdma::hca::soft
