// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "share.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "share_helper.h"

namespace
{

using vrdma::test::Memory;
using vrdma::test::page;
using vrdma::test::Piece;
using vrdma::test::resident;
using vrdma::test::Share;

void fill(char *data, size_t length, unsigned seed)
{
	for (size_t i = 0; i < length; ++i)
		data[i] = static_cast<char>((i + seed) * 2654435761u >> 24);
}

bool is_filled(const char *data, size_t length, unsigned seed)
{
	std::vector<char> expected(length);
	fill(expected.data(), length, seed);
	return std::memcmp(data, expected.data(), length) == 0;
}

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

// As a device does that maps the file.
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

TEST(Share, MovesHeapMemory)
{
	std::vector<std::unique_ptr<std::string>> strings;
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

TEST(Share, MovesTheProgramsOwnData)
{
	static char data[3 * page] = {"in the program's file"};
	const Share share(data, sizeof(data));
	ASSERT_EQ(share.error, 0);
	EXPECT_STREQ(data, "in the program's file");
	data[2 * page] = 'x';
	EXPECT_EQ(share.pieces[0].read(data + 2 * page - share.pieces[0].address), 'x');
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

// A device must find what it knows until the last share ends, and then the pages are given back.
TEST(Share, GivesBackWhatIsUnmapped)
{
	auto memory = std::make_unique<Memory>(4 * page);
	std::memset(memory->data(), 'x', 4 * page);
	auto whole = std::make_unique<Share>(memory->data(), 4 * page);
	auto second_page = std::make_unique<Share>(memory->data() + page, page);
	ASSERT_EQ(whole->error, 0);
	ASSERT_EQ(second_page->error, 0);
	const Piece piece(std::move(whole->pieces[0]));
	memory.reset();
	EXPECT_EQ(piece.read(0), 'x');
	whole.reset();
	EXPECT_FALSE(piece.holds(0));
	EXPECT_TRUE(piece.holds(page));
	EXPECT_FALSE(piece.holds(2 * page));
	EXPECT_EQ(piece.read(page), 'x');
	second_page.reset();
	EXPECT_FALSE(piece.holds(page));
}

// What was unmapped after its last share is found when enough has been released.
TEST(Share, GivesBackWhatIsUnmappedLater)
{
	auto memory = std::make_unique<Memory>(page);
	(*memory)[0] = 'x';
	auto share = std::make_unique<Share>(memory->data(), page);
	ASSERT_EQ(share->error, 0);
	const Piece piece(std::move(share->pieces[0]));
	share.reset();
	EXPECT_TRUE(piece.holds(0)) << "still mapped";
	memory.reset();
	const Memory other(size_t{64} << 20);
	ASSERT_EQ(Share(other.data(), size_t{64} << 20).error, 0);
	EXPECT_FALSE(piece.holds(0));
}

TEST(Share, SharesAnewWhatIsMappedAnew)
{
	Memory memory(4 * page);
	fill(memory.data(), 4 * page, 3);
	for (unsigned round = 0; round < 3; ++round) {
		const Share share(memory.data(), 4 * page);
		ASSERT_EQ(share.error, 0);
		// Also while it is shared.
		ASSERT_EQ(mmap(memory.data() + page, 2 * page, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
			  memory.data() + page);
		memory[page] = static_cast<char>('0' + round);
		const Share anew(memory.data(), 4 * page);
		ASSERT_EQ(anew.error, 0);
		ASSERT_EQ(anew.pieces.size(), 1u);
		EXPECT_EQ(anew.pieces[0].read(page), '0' + static_cast<int>(round));
		EXPECT_EQ(memory[page], '0' + static_cast<int>(round));
		EXPECT_EQ(anew.pieces[0].read(page + 1), 0) << "what was there before";
		EXPECT_EQ(memory[2 * page], 0) << "what was there before";
		EXPECT_TRUE(is_filled(memory.data(), page, 3));
		EXPECT_TRUE(is_filled(memory.data() + 3 * page, page, 3 + 3 * page));
	}
}

TEST(Share, TakesNothingForWhatIsUntouched)
{
	constexpr size_t length = size_t{1} << 30;
	const Memory memory(length);
	memory[length / 2] = 'x';
	const Share share(memory.data(), length);
	ASSERT_EQ(share.error, 0);
	ASSERT_EQ(share.pieces.size(), 1u);
	EXPECT_EQ(share.pieces[0].length, length);
	EXPECT_EQ(memory[length / 2], 'x');
	// What is there: a page, or a huge one.
	EXPECT_GE(resident(memory.data(), length), 1u);
	EXPECT_LE(resident(memory.data(), length), 512u);
	share.pieces[0].write(length - 1, 'd');
	EXPECT_EQ(memory[length - 1], 'd');
}

// 10,000 small buffers with gaps between them take the same fd, and not a mapping each once the
// gaps are shared as well.
TEST(Share, NeighboursBecomeOneMapping)
{
	constexpr size_t buffers = 10'000;
	const Memory memory(buffers * page);
	std::vector<std::unique_ptr<Share>> shares;
	const auto share_all = [&](size_t first) {
		for (size_t i = first; i < buffers; i += 2) {
			ASSERT_EQ(vrdma_share(
					  memory.data() + i * page + 16, 100, true,
					  [](const vrdma_piece *, void *) { return 0; }, nullptr),
				  0);
		}
	};
	share_all(buffers - 1); // what the first share of a process opens stays open
	const int before = dup(0);
	share_all(0);
	share_all(1);
	const int after = dup(0);
	EXPECT_EQ(after, before + 1);
	close(before);
	close(after);
	// A mapping that is one can be moved: this fails across two.
	void *const elsewhere = mremap(memory.data(), buffers * page, buffers * page,
				       MREMAP_MAYMOVE);
	EXPECT_EQ(elsewhere, memory.data());
	vrdma_unshare(memory.data() + (buffers - 1) * page + 16, 100);
	for (size_t i = 0; i < buffers; ++i)
		vrdma_unshare(memory.data() + i * page + 16, 100);
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

// Private, shared, private: three files' pieces in the order of their addresses.
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

// Both buffers are what malloc() would map: the first must not grow into the second's pages.
TEST(Share, GrowingDoesNotShowANeighboursPages)
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

TEST(Share, ReallocKeepsContent)
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

// A page that was moved keeps its content whatever is shared at its old address.
TEST(Share, MovedMappingsKeepTheirContent)
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
	// Sharing it where it is now makes room.
	const Share moved(target.data(), page);
	ASSERT_EQ(moved.error, 0);
	EXPECT_EQ(moved.pieces[0].read(0), 'm');
	const Share share(memory.data(), page);
	ASSERT_EQ(share.error, 0);
	EXPECT_EQ(share.pieces[0].read(0), 'n');
	EXPECT_EQ(target[0], 'm');
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

// The pages of a share, or of an allocation, that nobody can see any more are holes again.
TEST(SharedAlloc, GivesBackItsPages)
{
	vrdma_piece piece{};
	ASSERT_EQ(vrdma_shared_alloc(2 * page, &piece), 0);
	std::memset(piece.address, 1, piece.length);
	const auto data_at = [&] {
		return lseek(piece.fd, static_cast<off_t>(piece.offset), SEEK_DATA);
	};
	EXPECT_EQ(data_at(), static_cast<off_t>(piece.offset));
	vrdma_shared_free(&piece);
	EXPECT_NE(data_at(), static_cast<off_t>(piece.offset));
}

} // namespace
