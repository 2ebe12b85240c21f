// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "fake_bus.h"

namespace vrdma::test
{
namespace
{

constexpr size_t page = VRDMA_PAGE_SIZE;

class Memory : public testing::Test
{
      protected:
	Memory()
	{
		EXPECT_EQ(vrdma_memory_init(&memory, &bus), 0);
		pages = static_cast<char *>(mmap(nullptr, 8 * page, PROT_READ | PROT_WRITE,
						 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	}
	~Memory() override
	{
		vrdma_memory_destroy(&memory);
		EXPECT_TRUE(bus.maps.empty());
		munmap(pages, 8 * page);
	}
	Memory(const Memory &) = delete;
	Memory &operator=(const Memory &) = delete;

	// The address of the region's first byte according to its page list.
	static uint64_t first_byte(const vrdma_region &region)
	{
		uint32_t offset = 0;
		return vrdma_region_pages(&region, &offset).root + offset;
	}

	FakeBus bus;
	vrdma_memory memory{};
	char *pages;
};

TEST_F(Memory, QueuesAreZeroedWholePages)
{
	vrdma_buffer buffer{};
	ASSERT_EQ(vrdma_memory_alloc(&memory, &buffer, page + 1), 0);
	EXPECT_EQ(buffer.size, 2 * page);
	EXPECT_EQ(buffer.address % page, 0u);
	EXPECT_EQ(bus.at(buffer.address), buffer.data);
	const auto *bytes = static_cast<const char *>(buffer.data);
	EXPECT_EQ(std::count(bytes, bytes + buffer.size, 0), ssize_t(buffer.size));
	vrdma_memory_free(&memory, &buffer);
}

TEST_F(Memory, ARegionBeginsAtItsFirstByte)
{
	strcpy(pages + page + 100, "here");
	vrdma_region region{};
	ASSERT_EQ(vrdma_region_map(&memory, &region, pages + page + 100, 3 * page, true), 0);
	EXPECT_STREQ(static_cast<char *>(bus.at(first_byte(region))), "here");
	vrdma_region_unmap(&memory, &region);
	EXPECT_STREQ(pages + page + 100, "here");
}

TEST_F(Memory, OneMayBeSharedManyTimes)
{
	vrdma_region one{}, other{};
	ASSERT_EQ(vrdma_region_map(&memory, &one, pages, 2 * page, true), 0);
	ASSERT_EQ(vrdma_region_map(&memory, &other, pages + page, 2 * page, true), 0);
	EXPECT_EQ(bus.at(first_byte(other)), pages + page);
	vrdma_region_unmap(&memory, &one);
	EXPECT_EQ(bus.at(first_byte(other)), pages + page);
	vrdma_region_unmap(&memory, &other);
}

// Registers memory a thousand times after a queue was allocated: expects the device to have no more
// mappings than the two chunks that contain the queue and the memory.
TEST_F(Memory, AfterAQueueMappingsDoNotGrow)
{
	vrdma_buffer buffer{};
	ASSERT_EQ(vrdma_memory_alloc(&memory, &buffer, page), 0);
	std::vector<vrdma_region> regions(1000);
	for (vrdma_region &region : regions) {
		ASSERT_EQ(vrdma_region_map(&memory, &region, pages + 100, 2 * page, true), 0);
		EXPECT_EQ(bus.at(first_byte(region)), pages + 100);
	}
	EXPECT_LE(bus.maps.size(), 2u);
	for (vrdma_region &region : regions)
		vrdma_region_unmap(&memory, &region);
	vrdma_memory_free(&memory, &buffer);
}

// Registers 20,000 separate mappings: expects one mapping of the device per gigabyte.
TEST_F(Memory, ManyRegionsTakeFewMappings)
{
	constexpr size_t count = 20'000;
	vrdma_buffer buffer{};
	ASSERT_EQ(vrdma_memory_alloc(&memory, &buffer, page), 0);
	std::vector<vrdma_region> regions(count);
	auto *const all = static_cast<char *>(
		mmap(nullptr, 2 * count * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	for (size_t i = 0; i < count; ++i) {
		char *const own = all + 2 * i * page;
		ASSERT_EQ(mprotect(own, page, PROT_READ | PROT_WRITE), 0);
		ASSERT_EQ(vrdma_region_map(&memory, &regions[i], own, page, true), 0);
		ASSERT_EQ(bus.at(first_byte(regions[i])), own);
	}
	EXPECT_LE(bus.maps.size(), 3u);
	for (vrdma_region &region : regions)
		vrdma_region_unmap(&memory, &region);
	munmap(all, 2 * count * page);
	vrdma_memory_free(&memory, &buffer);
}

// The device refuses more mappings: expects its mappings to stay, and memory in its chunks to be
// registered nevertheless.
TEST_F(Memory, AtTheLimitOfMappingsChunksStillServe)
{
	vrdma_buffer buffer{};
	ASSERT_EQ(vrdma_memory_alloc(&memory, &buffer, page), 0);
	auto *const own = static_cast<char *>(
		mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
	std::vector<vrdma_region> alone(5);
	vrdma_region region{};
	ASSERT_EQ(vrdma_region_map(&memory, &region, pages, page, true), 0);
	vrdma_region_unmap(&memory, &region);
	// The chunk of `own` is mapped although the program's own file cannot be in it.
	ASSERT_EQ(vrdma_region_map(&memory, &alone[0], own, page, true), 0);
	bus.max_maps = bus.maps.size() + 3;
	for (size_t i = 1; i < 4; ++i)
		ASSERT_EQ(vrdma_region_map(&memory, &alone[i], own, page, true), 0);
	EXPECT_EQ(vrdma_region_map(&memory, &alone[4], own, page, true), ENOSPC);

	EXPECT_EQ(bus.at(first_byte(alone[3])), own);
	ASSERT_EQ(vrdma_region_map(&memory, &region, pages, page, true), 0);
	EXPECT_EQ(bus.at(first_byte(region)), pages);
	vrdma_region_unmap(&memory, &region);
	vrdma_region_unmap(&memory, &alone[3]);
	EXPECT_EQ(vrdma_region_map(&memory, &alone[3], own, page, true), 0);
	for (size_t i = 0; i < 4; ++i)
		vrdma_region_unmap(&memory, &alone[i]);
	munmap(own, page);
	vrdma_memory_free(&memory, &buffer);
}

// A device whose window is too small for a chunk gets a mapping for each buffer and region.
TEST_F(Memory, WithoutRoomForAChunkRegionsAreMappedAlone)
{
	vrdma_buffer buffer{};
	bus.max_length = VRDMA_CHUNK_SIZE - 1;
	ASSERT_EQ(vrdma_memory_alloc(&memory, &buffer, page), 0);
	EXPECT_EQ(bus.at(buffer.address), buffer.data);
	vrdma_region region{};
	ASSERT_EQ(vrdma_region_map(&memory, &region, pages + 100, 2 * page, true), 0);
	EXPECT_EQ(bus.at(first_byte(region)), pages + 100);
	EXPECT_EQ(bus.maps.size(), 2u);
	vrdma_region_unmap(&memory, &region);
	vrdma_memory_free(&memory, &buffer);
	EXPECT_TRUE(bus.maps.empty());
}

// Memory of the program's own file cannot be in a chunk, which maps our file.
TEST_F(Memory, OtherFilesAreMappedAlone)
{
	vrdma_buffer buffer{};
	ASSERT_EQ(vrdma_memory_alloc(&memory, &buffer, page), 0);
	auto *shared = static_cast<char *>(
		mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
	strcpy(shared, "here");
	vrdma_region region{};
	ASSERT_EQ(vrdma_region_map(&memory, &region, shared, 100, true), 0);
	EXPECT_FALSE(region.in_chunk);
	EXPECT_STREQ(static_cast<char *>(bus.at(first_byte(region))), "here");
	vrdma_region_unmap(&memory, &region);
	vrdma_memory_free(&memory, &buffer);
	munmap(shared, page);
}

// The device refuses a region: expects no mapping to be left, and its addresses to be free.
TEST_F(Memory, ARefusedRegionLeavesNothing)
{
	vrdma_region first{}, region{};
	ASSERT_EQ(vrdma_region_map(&memory, &first, pages, page, true), 0);
	const uint64_t address = first.range.iova;
	vrdma_region_unmap(&memory, &first);

	bus.map_error = -ENOSPC;
	EXPECT_EQ(vrdma_region_map(&memory, &region, pages, page, true), ENOSPC);
	bus.map_error = 0;
	ASSERT_EQ(vrdma_region_map(&memory, &region, pages, page, true), 0);
	EXPECT_EQ(region.range.iova, address);
	vrdma_region_unmap(&memory, &region);
}

TEST_F(Memory, WhatIsNotMappedIsNotShared)
{
	vrdma_region region{};
	mprotect(pages + page, page, PROT_NONE);
	EXPECT_EQ(vrdma_region_map(&memory, &region, pages, 2 * page, true), EFAULT);
	EXPECT_EQ(vrdma_region_map(&memory, &region, pages, 0, true), EINVAL);
}

// Over a bus that accesses memory in place, each registration has a mapping of its own. New memory
// at the address of an older registration is not the memory that the device pinned for that one.
TEST(MemoryInPlace, ARegistrationHasAMappingOfItsOwn)
{
	FakeBus bus;
	bus.in_place = true;
	vrdma_memory memory{};
	ASSERT_EQ(vrdma_memory_init(&memory, &bus), 0);
	vrdma_buffer buffer{};
	ASSERT_EQ(vrdma_memory_alloc(&memory, &buffer, page), 0);
	EXPECT_EQ(bus.at(buffer.address), buffer.data);

	std::vector<char> bytes(3 * page);
	vrdma_region one{}, other{};
	ASSERT_EQ(vrdma_region_map(&memory, &one, bytes.data() + 10, page, true), 0);
	ASSERT_EQ(vrdma_region_map(&memory, &other, bytes.data() + 10, page, true), 0);
	EXPECT_NE(one.iova, other.iova);
	EXPECT_EQ(bus.at(one.iova), bytes.data() + 10);
	EXPECT_EQ(bus.at(other.iova), bytes.data() + 10);

	vrdma_region_unmap(&memory, &one);
	EXPECT_EQ(bus.at(other.iova), bytes.data() + 10);
	vrdma_region_unmap(&memory, &other);
	vrdma_memory_free(&memory, &buffer);
	EXPECT_TRUE(bus.maps.empty());
	vrdma_memory_destroy(&memory);
}

struct Pages {
	uint64_t iova;
	uint64_t length;
	uint64_t root;
	uint32_t first_offset, count;
	uint8_t shift;
};

class RegionPages : public testing::TestWithParam<Pages>
{
};

TEST_P(RegionPages, AreFewAndCoverIt)
{
	const Pages &expected = GetParam();
	vrdma_region region{};
	region.length = expected.length;
	region.iova = expected.iova;
	uint32_t first_offset = 0;
	const vrdma_page_list list = vrdma_region_pages(&region, &first_offset);
	EXPECT_EQ(list.root, expected.root);
	EXPECT_EQ(first_offset, expected.first_offset);
	EXPECT_EQ(list.count, expected.count);
	EXPECT_EQ(list.page_shift, expected.shift);
	EXPECT_EQ(list.levels, 0);
}

INSTANTIATE_TEST_SUITE_P(Each, RegionPages,
			 testing::Values(Pages{0x5000, 1, 0x5000, 0, 1, 12},
					 Pages{0x5fff, 2, 0x5000, 0xfff, 2, 12},
					 Pages{0x5010, 0x3000, 0x4000, 0x1010, 2, 14},
					 Pages{0x40000000, 1ull << 30, 0x40000000, 0, 1, 30},
					 Pages{0x40001000, 3ull << 30, 0x40000000, 0x1000, 4, 30}));

} // namespace
} // namespace vrdma::test
