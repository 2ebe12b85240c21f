// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "share.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include <fcntl.h>
#include <gtest/gtest.h>

#include "share_helper.h"

namespace
{

using vrdma::test::fill;
using vrdma::test::is_filled;
using vrdma::test::Memory;
using vrdma::test::page;
using vrdma::test::Share;

TEST(Share, KeepsContentAndCoversWholePages)
{
	const Memory memory(8 * page);
	fill(memory.data(), 8 * page, 1);
	const Share share(memory.data() + 2 * page + 100, 3 * page);
	ASSERT_EQ(share.error, 0);
	ASSERT_EQ(share.pieces.size(), 1u);
	EXPECT_EQ(share.pieces[0].address, memory.data() + 2 * page);
	EXPECT_EQ(share.pieces[0].length, 4 * page);
	EXPECT_TRUE(is_filled(memory.data(), 8 * page, 1));
	EXPECT_EQ(std::memcmp(share.pieces[0].content().data(), memory.data() + 2 * page, 4 * page),
		  0);
}

// Maps the file like a device.
TEST(Share, DeviceAndProcessSeeEachOther)
{
	const Memory memory(2 * page);
	memory[page] = 1;
	const Share share(memory.data(), 2 * page);
	ASSERT_EQ(share.error, 0);
	const Memory device(2 * page, PROT_READ | PROT_WRITE, MAP_SHARED, share.pieces[0].fd,
			    static_cast<off_t>(share.pieces[0].offset));
	EXPECT_EQ(device[page], 1);
	memory[5] = 'p';
	EXPECT_EQ(device[5], 'p');
	device[page + 7] = 'd';
	EXPECT_EQ(memory[page + 7], 'd');
}

TEST(Share, CountsSharesOfOnePage)
{
	const Memory memory(4 * page);
	fill(memory.data(), 4 * page, 2);
	auto small = std::make_unique<Share>(memory.data() + page, page);
	auto large = std::make_unique<Share>(memory.data(), 4 * page);
	auto again = std::make_unique<Share>(memory.data() + page, page);
	ASSERT_EQ(small->error, 0);
	ASSERT_EQ(large->error, 0);
	ASSERT_EQ(again->error, 0);
	ASSERT_EQ(large->pieces.size(), 1u);
	EXPECT_EQ(large->pieces[0].offset + page, small->pieces[0].offset);
	EXPECT_EQ(large->pieces[0].inode(), small->pieces[0].inode());
	EXPECT_EQ(again->pieces[0].offset, small->pieces[0].offset);
	memory[page] = 's';
	EXPECT_EQ(small->pieces[0].read(0), 's');
	EXPECT_EQ(large->pieces[0].read(page), 's');
	small.reset();
	large.reset();
	memory[page] = 't';
	EXPECT_EQ(again->pieces[0].read(0), 't');
	again.reset();
	EXPECT_TRUE(is_filled(memory.data() + 2 * page, 2 * page, 2 + 2 * page));
}

TEST(Share, UsesSharedMemoryAsItIs)
{
	const int fd = memfd_create("program's", MFD_CLOEXEC);
	ASSERT_EQ(ftruncate(fd, 8 * page), 0);
	struct stat status = {};
	ASSERT_EQ(fstat(fd, &status), 0);
	const Memory memory(4 * page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 2 * page);
	close(fd);
	const Share share(memory.data() + page, page + 1);
	ASSERT_EQ(share.error, 0);
	ASSERT_EQ(share.pieces.size(), 1u);
	EXPECT_EQ(share.pieces[0].inode(), status.st_ino);
	EXPECT_EQ(share.pieces[0].offset, 3 * page);
	EXPECT_EQ(share.pieces[0].length, 2 * page);
	memory[page] = 'x';
	EXPECT_EQ(share.pieces[0].read(0), 'x');
}

TEST(Share, UsesSharedAnonymousMemoryAsItIs)
{
	const Memory memory(2 * page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS);
	const Share share(memory.data(), 2 * page);
	ASSERT_EQ(share.error, 0);
	memory[page] = 'x';
	EXPECT_EQ(share.pieces[0].read(page), 'x');
}

// Shares private, shared and private memory: expects the pieces in the order of their addresses.
TEST(Share, VisitsPiecesInOrder)
{
	const Memory memory(6 * page);
	fill(memory.data(), 6 * page, 4);
	const int fd = memfd_create("program's", MFD_CLOEXEC);
	ASSERT_EQ(ftruncate(fd, 2 * page), 0);
	ASSERT_NE(mmap(memory.data() + 2 * page, 2 * page, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_FIXED, fd, 0),
		  MAP_FAILED);
	close(fd);
	const Share share(memory.data(), 6 * page);
	ASSERT_EQ(share.error, 0);
	ASSERT_EQ(share.pieces.size(), 3u);
	for (size_t i = 0; i < 3; ++i) {
		EXPECT_EQ(share.pieces[i].address, memory.data() + 2 * i * page);
		EXPECT_EQ(share.pieces[i].length, 2 * page);
	}
	EXPECT_EQ(share.pieces[0].inode(), share.pieces[2].inode());
	EXPECT_NE(share.pieces[0].inode(), share.pieces[1].inode());
}

TEST(Share, ReadOnlyMemoryIsForReadingDevices)
{
	const Memory memory(2 * page);
	fill(memory.data(), 2 * page, 5);
	ASSERT_EQ(mprotect(memory.data(), 2 * page, PROT_READ), 0);
	EXPECT_EQ(Share(memory.data(), 2 * page, true).error, EFAULT);
	const Share share(memory.data(), 2 * page, false);
	ASSERT_EQ(share.error, 0);
	EXPECT_TRUE(is_filled(share.pieces[0].content().data(), 2 * page, 5));
	const int zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	EXPECT_EQ(read(zero, memory.data(), 1), -1) << "writable now";
	close(zero);
}

TEST(Share, RefusesWhatIsNotMemory)
{
	const Memory first(page);
	ASSERT_EQ(Share(first.data(), page).error,
		  0); // later shares map nothing of their own, so the hole stays empty

	const Memory hole(3 * page);
	munmap(hole.data() + page, page);
	EXPECT_EQ(Share(hole.data(), 3 * page).error, EFAULT);
	EXPECT_EQ(Share(nullptr, 1).error, EFAULT);
	EXPECT_EQ(Share(hole.data(), 0).error, EINVAL);
	EXPECT_EQ(Share(hole.data(), SIZE_MAX).error, EINVAL);

	const Memory unreadable(page, PROT_NONE);
	EXPECT_EQ(Share(unreadable.data(), page, false).error, EFAULT);

	const int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	const Memory of_file(page, PROT_READ, MAP_SHARED, file);
	close(file);
	EXPECT_EQ(Share(of_file.data(), page, false).error, EOPNOTSUPP);

	char on_stack[64] = {};
	EXPECT_EQ(Share(on_stack, sizeof(on_stack)).error, EOPNOTSUPP);
	EXPECT_EQ(Share(&errno, sizeof(errno)).error, EOPNOTSUPP);
}

TEST(Share, WhatAVisitReturnsEndsIt)
{
	const Memory memory(page);
	memory[0] = 'x';
	EXPECT_EQ(vrdma_share(
			  memory.data(), page, true,
			  [](const vrdma_piece *, void *) { return ENOBUFS; }, nullptr),
		  ENOBUFS);
	EXPECT_EQ(memory[0], 'x');
	EXPECT_EQ(Share(memory.data(), page).error, 0);
}

TEST(SharedAlloc, IsZeroedAndSharedFromTheStart)
{
	for (int round = 0; round < 3; ++round) {
		vrdma_piece piece{};
		ASSERT_EQ(vrdma_shared_alloc(page + 1, &piece), 0);
		EXPECT_EQ(piece.length, 2 * page);
		auto *const data = static_cast<char *>(piece.address);
		EXPECT_EQ(std::count(data, data + piece.length, 0),
			  static_cast<long>(piece.length));
		data[page] = 'x';
		char seen = 0;
		EXPECT_EQ(pread(piece.fd, &seen, 1, static_cast<off_t>(piece.offset + page)), 1);
		EXPECT_EQ(seen, 'x');
		const Share share(data, piece.length);
		ASSERT_EQ(share.error, 0);
		EXPECT_EQ(share.pieces[0].offset, piece.offset);
		vrdma_shared_free(&piece);
	}
	vrdma_piece piece{};
	EXPECT_EQ(vrdma_shared_alloc(0, &piece), EINVAL);
}

} // namespace
