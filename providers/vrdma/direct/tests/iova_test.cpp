// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "iova.h"

#include <cerrno>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace
{

constexpr uint64_t iova_page = 4096;
constexpr uint64_t window = uint64_t{1} << 40;

class Iova : public ::testing::Test
{
      protected:
	Iova()
	{
		EXPECT_EQ(vrdma_iova_init(&space_, iova_page, window), 0);
	}
	~Iova() override
	{
		vrdma_iova_destroy(&space_);
	}
	Iova(const Iova &) = delete;
	Iova &operator=(const Iova &) = delete;

	std::optional<uint64_t> alloc(uint64_t length)
	{
		uint64_t iova = 0;
		return vrdma_iova_alloc(&space_, length, &iova) == 0 ? std::optional(iova)
								     : std::nullopt;
	}
	void free(uint64_t iova, uint64_t length)
	{
		EXPECT_EQ(vrdma_iova_free(&space_, iova, length), 0);
	}
	void expect_all_free()
	{
		EXPECT_EQ(alloc(window - iova_page), iova_page);
		free(iova_page, window - iova_page);
	}

	vrdma_iova_space space_{};
};

TEST_F(Iova, GivesPagesFromTheStart)
{
	EXPECT_EQ(alloc(1), iova_page);
	EXPECT_EQ(alloc(iova_page + 1), 2 * iova_page);
	EXPECT_EQ(alloc(iova_page), 4 * iova_page);
}

TEST_F(Iova, FillsTheFirstGapThatIsLongEnough)
{
	for (uint64_t i = 1; i <= 9; ++i)
		ASSERT_EQ(alloc(iova_page), i * iova_page);
	free(2 * iova_page, iova_page);
	free(5 * iova_page, iova_page);
	free(6 * iova_page, iova_page);
	EXPECT_EQ(alloc(2 * iova_page), 5 * iova_page);
	EXPECT_EQ(alloc(iova_page), 2 * iova_page);
	EXPECT_EQ(alloc(iova_page), 10 * iova_page);
}

TEST_F(Iova, MergesWithBothNeighbours)
{
	ASSERT_EQ(alloc(iova_page), 1 * iova_page);
	ASSERT_EQ(alloc(iova_page), 2 * iova_page);
	ASSERT_EQ(alloc(iova_page), 3 * iova_page);
	free(1 * iova_page, iova_page);
	free(3 * iova_page, iova_page);
	free(2 * iova_page, iova_page);
	expect_all_free();
}

TEST_F(Iova, FitsRegionsOf64GiB)
{
	constexpr uint64_t region = uint64_t{64} << 30;
	for (uint64_t i = 0; i < 15; ++i)
		ASSERT_EQ(alloc(region), iova_page + i * region);
	EXPECT_EQ(alloc(region), std::nullopt);
	EXPECT_EQ(alloc(region - iova_page), iova_page + 15 * region);
	EXPECT_EQ(alloc(1), std::nullopt);
	free(iova_page + 7 * region, region);
	EXPECT_EQ(alloc(region), iova_page + 7 * region);
}

TEST_F(Iova, RefusesWhatIsNoRange)
{
	uint64_t iova = 0;
	EXPECT_EQ(vrdma_iova_alloc(&space_, 0, &iova), EINVAL);
	EXPECT_EQ(vrdma_iova_alloc(&space_, UINT64_MAX, &iova), EINVAL);
	EXPECT_EQ(vrdma_iova_alloc(&space_, window, &iova), ENOSPC);
	EXPECT_EQ(vrdma_iova_free(&space_, iova_page, 0), EINVAL);
	EXPECT_EQ(vrdma_iova_free(&space_, 0, iova_page), EINVAL);
	EXPECT_EQ(vrdma_iova_free(&space_, iova_page + 1, iova_page), EINVAL);
	EXPECT_EQ(vrdma_iova_free(&space_, window, iova_page), EINVAL);
	EXPECT_EQ(vrdma_iova_free(&space_, iova_page, window), EINVAL);
	EXPECT_EQ(vrdma_iova_free(&space_, UINT64_MAX - iova_page + 1, iova_page), EINVAL);
	vrdma_iova_space other{};
	EXPECT_EQ(vrdma_iova_init(&other, iova_page, iova_page), EINVAL);
	EXPECT_EQ(vrdma_iova_init(&other, 1, iova_page), EINVAL);
}

TEST_F(Iova, RefusesToFreeTwice)
{
	ASSERT_EQ(alloc(4 * iova_page), iova_page);
	ASSERT_EQ(alloc(iova_page), 5 * iova_page);
	free(iova_page, 4 * iova_page);
	EXPECT_EQ(vrdma_iova_free(&space_, iova_page, 4 * iova_page), EINVAL);
	EXPECT_EQ(vrdma_iova_free(&space_, 4 * iova_page, 2 * iova_page), EINVAL);
	free(5 * iova_page, iova_page);
	expect_all_free();
}

// Frees every other of 100,000 ranges, then the rest: many free ranges become one.
TEST_F(Iova, HoldsManySmallRanges)
{
	constexpr uint64_t ranges = 100'000;
	for (uint64_t i = 1; i <= ranges; ++i)
		ASSERT_EQ(alloc(iova_page), i * iova_page);
	for (uint64_t i = 1; i <= ranges; i += 2)
		free(i * iova_page, iova_page);
	EXPECT_EQ(alloc(2 * iova_page), (ranges + 1) * iova_page);
	free((ranges + 1) * iova_page, 2 * iova_page);
	for (uint64_t i = 1; i <= ranges; i += 2)
		ASSERT_EQ(alloc(iova_page), i * iova_page);
	for (uint64_t i = ranges; i >= 1; --i)
		free(i * iova_page, iova_page);
	expect_all_free();
}

// Allocates and frees ranges of random lengths: expects none to overlap another, and the first fit
// that a list finds.
TEST_F(Iova, AgreesWithAList)
{
	std::mt19937 random(1);
	std::map<uint64_t, uint64_t> taken; // start, end
	for (int i = 0; i < 3000; ++i) {
		if (taken.size() > 50 && random() % 2) {
			auto victim = std::next(taken.begin(), random() % taken.size());
			free(victim->first, victim->second - victim->first);
			taken.erase(victim);
			continue;
		}
		const uint64_t length = (1 + random() % 16) * iova_page;
		uint64_t expected = iova_page;
		for (const auto &[start, end] : taken) {
			if (start - expected >= length)
				break;
			expected = end;
		}
		ASSERT_EQ(alloc(length), expected);
		taken.emplace(expected, expected + length);
	}
	for (const auto &[start, end] : taken)
		free(start, end - start);
	expect_all_free();
}

} // namespace
