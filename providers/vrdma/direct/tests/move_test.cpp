// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/syscall.h>

#include "share_helper.h"

namespace
{

using vrdma::test::fill;
using vrdma::test::is_filled;
using vrdma::test::Memory;
using vrdma::test::page;
using vrdma::test::resident;
using vrdma::test::Share;

TEST(Move, MovesHeapMemory)
{
	std::vector<std::unique_ptr<std::string>> strings;
	strings.reserve(1000);
	for (int i = 0; i < 1000; ++i)
		strings.push_back(
			std::make_unique<std::string>(200, static_cast<char>('a' + i % 26)));
	for (auto &string : strings) {
		const Share share(string->data(), string->size());
		ASSERT_EQ(share.error, 0);
		ASSERT_EQ(share.pieces[0].read(reinterpret_cast<uintptr_t>(string->data()) % page),
			  string->front());
	}
	for (int i = 0; i < 1000; ++i)
		EXPECT_EQ(*strings[i], std::string(200, static_cast<char>('a' + i % 26)));
}

TEST(Move, MovesTheProgramsOwnData)
{
	static char data[3 * page] = {"in the program's file"};
	const Share share(data, sizeof(data));
	ASSERT_EQ(share.error, 0);
	EXPECT_STREQ(data, "in the program's file");
	data[2 * page] = 'x';
	EXPECT_EQ(share.pieces[0].read(data + 2 * page - share.pieces[0].address), 'x');
}

TEST(Move, TakesNothingForWhatIsUntouched)
{
	constexpr size_t length = size_t{1} << 30;
	const Memory memory(length);
	memory[length / 2] = 'x';
	const Share share(memory.data(), length);
	ASSERT_EQ(share.error, 0);
	ASSERT_EQ(share.pieces.size(), 1u);
	EXPECT_EQ(share.pieces[0].length, length);
	EXPECT_EQ(memory[length / 2], 'x');
	// One page is resident, or one huge page.
	EXPECT_GE(resident(memory.data(), length), 1u);
	EXPECT_LE(resident(memory.data(), length), 512u);
	share.pieces[0].write(length - 1, 'd');
	EXPECT_EQ(memory[length - 1], 'd');
}

// 10,000 small buffers with gaps between them use one file. Once the gaps are shared as well, they
// are a single mapping.
TEST(Move, NeighboursBecomeOneMapping)
{
	constexpr size_t buffers = 10'000;
	const Memory memory(buffers * page);
	const auto share_all = [&](size_t first) {
		for (size_t i = first; i < buffers; i += 2) {
			ASSERT_EQ(vrdma_share(
					  memory.data() + i * page + 16, 100, true,
					  [](const vrdma_piece *, void *) { return 0; }, nullptr),
				  0);
		}
	};
	share_all(buffers - 1); // the first share of a process opens files that stay open
	const int before = dup(0);
	share_all(0);
	share_all(1);
	const int after = dup(0);
	EXPECT_EQ(after, before + 1);
	close(before);
	close(after);
	// mremap() fails for a range of two mappings, so success means that there is one.
	void *const elsewhere = mremap(memory.data(), buffers * page, buffers * page,
				       MREMAP_MAYMOVE);
	EXPECT_EQ(elsewhere, memory.data());
	vrdma_unshare(memory.data() + (buffers - 1) * page + 16, 100);
	for (size_t i = 0; i < buffers; ++i)
		vrdma_unshare(memory.data() + i * page + 16, 100);
}

// Both buffers look like mappings of malloc(): the first must not grow into the second's pages.
TEST(Move, GrowingDoesNotShowANeighboursPages)
{
	constexpr size_t length = size_t{256} << 10;
	const Memory memory(2 * length);
	std::memset(memory.data(), 'a', length);
	std::memset(memory.data() + length, 'b', length);
	{
		const Share first(memory.data(), length);
		const Share second(memory.data() + length, length);
		ASSERT_EQ(first.error, 0);
		ASSERT_EQ(second.error, 0);
	}
	EXPECT_EQ(mremap(memory.data(), length, 2 * length, MREMAP_MAYMOVE), MAP_FAILED);
	EXPECT_EQ(memory[length - 1], 'a');
	EXPECT_EQ(memory[length], 'b');
}

TEST(Move, ReallocKeepsContent)
{
	constexpr size_t length = size_t{1} << 20;
	auto *data = static_cast<char *>(std::malloc(length));
	ASSERT_NE(data, nullptr);
	fill(data, length, 6);
	ASSERT_EQ(Share(data, length).error, 0);
	auto *larger = static_cast<char *>(std::realloc(data, 3 * length));
	ASSERT_NE(larger, nullptr);
	fill(larger + length, 2 * length, 7);
	EXPECT_TRUE(is_filled(larger, length, 6));
	EXPECT_EQ(Share(larger, 3 * length).error, 0);
	EXPECT_TRUE(is_filled(larger, length, 6));
	EXPECT_TRUE(is_filled(larger + length, 2 * length, 7));
	std::free(larger);
}

// A page that mremap() moved keeps its content when other memory is shared at its old address.
TEST(Move, MovedMappingsKeepTheirContent)
{
	const Memory memory(page);
	const Memory target(page);
	memory[0] = 'm';
	{
		const Share share(memory.data(), page);
		ASSERT_EQ(share.error, 0);
		ASSERT_EQ(mremap(memory.data(), page, page, MREMAP_MAYMOVE | MREMAP_FIXED,
				 target.data()),
			  target.data());
	}
	EXPECT_EQ(target[0], 'm');
	ASSERT_EQ(mmap(memory.data(), page, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
		  memory.data());
	memory[0] = 'n';
	EXPECT_EQ(Share(memory.data(), page).error, EBUSY);
	EXPECT_EQ(target[0], 'm');
	EXPECT_EQ(memory[0], 'n');
	// Sharing the page at its new address frees its old place in the file.
	const Share moved(target.data(), page);
	ASSERT_EQ(moved.error, 0);
	EXPECT_EQ(moved.pieces[0].read(0), 'm');
	const Share share(memory.data(), page);
	ASSERT_EQ(share.error, 0);
	EXPECT_EQ(share.pieces[0].read(0), 'n');
	EXPECT_EQ(target[0], 'm');
}

// malloc() has made two adjacent mappings, each for one allocation of less than 128 KiB, as with a
// lower M_MMAP_THRESHOLD: expects realloc()'s mremap() to fail, so that realloc() copies.
TEST(Move, WhatMallocHasMappedDoesNotGrow)
{
	constexpr size_t length = 5 * page;
	const Memory memory(2 * length);
	const std::array<size_t, 2> header{0, length | 2};
	for (const size_t start : {size_t{0}, length})
		std::memcpy(memory.data() + start, header.data(), sizeof(header));
	const Share first(memory.data() + 16, 20000), second(memory.data() + length + 16, 20000);
	ASSERT_EQ(first.error, 0);
	ASSERT_EQ(second.error, 0);
	EXPECT_EQ(syscall(SYS_mremap, memory.data(), length, 2 * length, MREMAP_MAYMOVE), -1);
	EXPECT_EQ(errno, EFAULT);
}

// The same after realloc() has shrunk the mapping, for which mremap() does not fail: expects the
// mapping not to grow again.
TEST(Move, WhatMallocHasMadeSmallerDoesNotGrow)
{
	constexpr size_t length = 64 * page, smaller = 5 * page;
	const Memory memory(length);
	const std::array<size_t, 2> header{0, length | 2};
	std::memcpy(memory.data(), header.data(), sizeof(header));
	ASSERT_EQ(Share(memory.data() + 16, length - 16).error, 0);
	ASSERT_EQ(mremap(memory.data(), length, smaller, MREMAP_MAYMOVE), memory.data());
	EXPECT_EQ(syscall(SYS_mremap, memory.data(), smaller, 2 * length, MREMAP_MAYMOVE), -1);
	EXPECT_EQ(errno, EFAULT);
}

} // namespace
