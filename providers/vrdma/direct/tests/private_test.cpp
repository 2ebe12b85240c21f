// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
// Tests that an allocator can treat memory that was moved into the arena like private memory.
#include "private.h"

#include <cerrno>
#include <cstring>

#include <gtest/gtest.h>

#include "share_helper.h"

namespace
{

using vrdma::test::fill;
using vrdma::test::is_filled;
using vrdma::test::Memory;
using vrdma::test::page;
using vrdma::test::Share;

constexpr size_t length = 16 * page;

void *grow(void *old, size_t from, size_t to, int flags = MREMAP_MAYMOVE)
{
	return vrdma_private_mremap(old, from, to, flags, nullptr);
}

// Expects no mapping where memory was. Reserves the range, so that no new mapping gets there.
void expect_gone(char *data, size_t size)
{
	EXPECT_EQ(mmap(data, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1,
		       0),
		  data);
}

bool is_zero(const char *data, size_t size)
{
	return std::vector<char>(size) == std::vector<char>(data, data + size);
}

// Memory is registered, given back to the allocator, and discarded: expects zeros, because calloc()
// relies on zeros there.
TEST(Private, DiscardedMemoryIsZero)
{
	for (const int advice : {MADV_DONTNEED, MADV_FREE, 24 /* MADV_DONTNEED_LOCKED */}) {
		const Memory memory(length);
		fill(memory.data(), length, 1);
		{
			const Share share(memory.data() + page, length - page);
			ASSERT_EQ(share.error, 0);
		}
		ASSERT_EQ(vrdma_private_madvise(memory.data() + page, length - 2 * page, advice),
			  0);
		EXPECT_TRUE(is_filled(memory.data(), page, 1));
		EXPECT_TRUE(is_zero(memory.data() + page, length - 2 * page)) << advice;
		EXPECT_FALSE(is_zero(memory.data() + length - page, page));
	}
}

// The same while memory is registered: expects the device and the program to see the same content.
TEST(Private, DiscardedMemoryIsTheDevicesToo)
{
	const Memory memory(length);
	fill(memory.data(), length, 1);
	const Share share(memory.data(), length);
	ASSERT_EQ(share.error, 0);
	ASSERT_EQ(vrdma_private_madvise(memory.data(), page, MADV_DONTNEED), 0);
	EXPECT_EQ(share.pieces[0].read(0), 0);
	memory[0] = 'x';
	EXPECT_EQ(share.pieces[0].read(0), 'x');
}

// Only a part of a range was moved, and another part is not mapped: expects all mapped memory to be
// discarded, and the kernel's error.
TEST(Private, DiscardsWhatWasNotMovedAsWell)
{
	const Memory memory(length);
	fill(memory.data(), length, 1);
	const Share share(memory.data() + 4 * page, page);
	ASSERT_EQ(munmap(memory.data() + 8 * page, page), 0);
	EXPECT_EQ(vrdma_private_madvise(memory.data(), length, MADV_DONTNEED), -1);
	EXPECT_EQ(errno, ENOMEM);
	expect_gone(memory.data() + 8 * page, page);
	EXPECT_TRUE(is_zero(memory.data(), 8 * page));
	EXPECT_TRUE(is_zero(memory.data() + 9 * page, length - 9 * page));
}

TEST(Private, OtherAdviceIsTheKernels)
{
	const Memory memory(length);
	fill(memory.data(), length, 1);
	const Share share(memory.data(), length);
	EXPECT_EQ(vrdma_private_madvise(memory.data(), length, MADV_WILLNEED), 0);
	EXPECT_EQ(vrdma_private_madvise(memory.data(), length, -1), -1);
	EXPECT_EQ(errno, EINVAL);
	EXPECT_EQ(vrdma_private_madvise(memory.data() + 1, page, MADV_DONTNEED), -1);
	EXPECT_EQ(errno, EINVAL);
	EXPECT_TRUE(is_filled(memory.data(), length, 1));
}

// Two neighbours were moved, and the first grows: expects new memory behind it, and no content of
// the second.
TEST(Private, GrowingMemoryIsNew)
{
	const Memory memory(2 * length);
	fill(memory.data(), 2 * length, 1);
	const Share share(memory.data(), 2 * length);
	ASSERT_EQ(share.error, 0);
	auto *const grown = static_cast<char *>(grow(memory.data(), length, 2 * length));
	ASSERT_NE(grown, MAP_FAILED);
	expect_gone(memory.data(), length);
	EXPECT_TRUE(is_filled(grown, length, 1));
	EXPECT_TRUE(is_zero(grown + length, length));
	std::memset(grown, 'y', 2 * length);
	std::vector<char> all(2 * length);
	fill(all.data(), 2 * length, 1);
	EXPECT_EQ(std::memcmp(memory.data() + length, all.data() + length, length), 0);
	munmap(grown, 2 * length);
}

// Only a page in the middle was moved, so that the kernel has three mappings: expects growing to
// work as before.
TEST(Private, MemoryThatWasMovedInPartGrows)
{
	const Memory memory(2 * length);
	fill(memory.data(), length, 1);
	const Share share(memory.data() + 2 * page, page);
	ASSERT_EQ(share.error, 0);
	auto *const grown = static_cast<char *>(grow(memory.data(), length, 3 * length));
	ASSERT_NE(grown, MAP_FAILED);
	expect_gone(memory.data(), length);
	EXPECT_TRUE(is_filled(grown, length, 1));
	EXPECT_TRUE(is_zero(grown + length, 2 * length));
	munmap(grown, 3 * length);
}

TEST(Private, GrowsInPlaceWhereThereIsRoom)
{
	const Memory memory(2 * length);
	fill(memory.data(), 2 * length, 1);
	const Share share(memory.data(), length);
	ASSERT_EQ(share.error, 0);
	EXPECT_EQ(grow(memory.data(), length, 2 * length, 0), MAP_FAILED);
	EXPECT_EQ(errno, ENOMEM);
	ASSERT_EQ(munmap(memory.data() + length, length), 0);
	EXPECT_EQ(grow(memory.data(), length, 2 * length, 0), memory.data());
	EXPECT_TRUE(is_filled(memory.data(), length, 1));
	EXPECT_TRUE(is_zero(memory.data() + length, length));
}

// Memory is moved to an address that the program chooses: expects private memory there, of the same
// protection, and no memory at the old address.
TEST(Private, MovesToAnAddress)
{
	const Memory memory(length);
	const Memory place(2 * length);
	fill(memory.data(), length, 1);
	const Share share(memory.data(), length);
	ASSERT_EQ(mprotect(memory.data(), length, PROT_READ), 0);
	constexpr size_t half = length / 2;
	EXPECT_EQ(vrdma_private_mremap(memory.data(), length, half, MREMAP_MAYMOVE | MREMAP_FIXED,
				       place.data()),
		  place.data());
	expect_gone(memory.data(), length);
	EXPECT_TRUE(is_filled(place.data(), half, 1));
	EXPECT_EQ(Share(place.data(), half, true).error, EFAULT) << "not writable";
}

TEST(Private, WhatWasNotMovedIsTheKernels)
{
	const Memory memory(2 * length);
	fill(memory.data(), length, 1);
	auto *const grown = static_cast<char *>(grow(memory.data(), length, 4 * length));
	ASSERT_NE(grown, MAP_FAILED);
	expect_gone(memory.data(), length);
	EXPECT_TRUE(is_filled(grown, length, 1));
	EXPECT_EQ(grow(grown, 4 * length, length), grown);
	munmap(grown, length);
	EXPECT_EQ(grow(grown, length, 2 * length), MAP_FAILED);
	EXPECT_EQ(errno, EFAULT);
}

} // namespace
