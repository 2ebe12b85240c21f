// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "in_place.h"

#include <sys/mman.h>
#include <vrdma/device.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

namespace vrdma::test
{
namespace
{

constexpr size_t page = VRDMA_PAGE_SIZE;

int collect(const vrdma_piece *piece, void *arg)
{
	static_cast<std::vector<vrdma_piece> *>(arg)->push_back(*piece);
	return 0;
}

class InPlace : public testing::Test
{
      protected:
	InPlace()
	    : pages(static_cast<char *>(mmap(nullptr, 4 * page, PROT_READ | PROT_WRITE,
					     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)))
	{
	}
	~InPlace() override
	{
		munmap(pages, 4 * page);
	}
	InPlace(const InPlace &) = delete;
	InPlace &operator=(const InPlace &) = delete;

	int share(char *start, size_t length, bool device_writes = true)
	{
		return vrdma_in_place_share(start, length, device_writes, collect, &pieces);
	}

	char *pages;
	std::vector<vrdma_piece> pieces;
};

// Shares bytes of two pages: expects one piece of both pages, without a file, and their content
// unchanged.
TEST_F(InPlace, OnePieceOfWholePages)
{
	pages[page] = 'x';
	ASSERT_EQ(share(pages + page - 1, 2), 0);
	ASSERT_EQ(pieces.size(), 1u);
	EXPECT_EQ(pieces[0].address, pages);
	EXPECT_EQ(pieces[0].length, 2 * page);
	EXPECT_EQ(pieces[0].fd, -1);
	EXPECT_EQ(pages[page], 'x');
	vrdma_in_place_unshare(pages + page - 1, 2);
}

// Shares private and shared mappings: expects one piece for all of them.
TEST_F(InPlace, AcrossMappings)
{
	ASSERT_NE(mmap(pages + page, page, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
		  MAP_FAILED);
	ASSERT_EQ(share(pages, 4 * page), 0);
	EXPECT_EQ(pieces.size(), 1u);
}

TEST_F(InPlace, TheStackToo)
{
	char here = 0;
	EXPECT_EQ(share(&here, 1), 0);
}

TEST_F(InPlace, WhatCannotBeShared)
{
	EXPECT_EQ(share(pages, 0), EINVAL);
	EXPECT_EQ(share(pages, SIZE_MAX), EINVAL);
	EXPECT_EQ(share(reinterpret_cast<char *>(UINTPTR_MAX - 5), 2), EINVAL);
	mprotect(pages + page, page, PROT_READ);
	mprotect(pages + 2 * page, page, PROT_NONE);
	munmap(pages + 3 * page, page);
	EXPECT_EQ(share(pages, page + 1, true), EFAULT);
	EXPECT_EQ(share(pages, page + 1, false), EOPNOTSUPP);
	EXPECT_EQ(share(pages + 2 * page, page, false), EFAULT);
	EXPECT_EQ(share(pages + 3 * page, page), EFAULT);
	EXPECT_TRUE(pieces.empty());
	EXPECT_EQ(share(pages, page), 0);
}

TEST_F(InPlace, QueuesAreZeroedWholePages)
{
	vrdma_piece piece{};
	ASSERT_EQ(vrdma_in_place_alloc(page + 1, &piece), 0);
	EXPECT_EQ(piece.length, 2 * page);
	const auto *bytes = static_cast<const char *>(piece.address);
	EXPECT_EQ(std::count(bytes, bytes + piece.length, 0), ssize_t(piece.length));
	vrdma_in_place_free(&piece);
	EXPECT_EQ(vrdma_in_place_alloc(0, &piece), EINVAL);
}

} // namespace
} // namespace vrdma::test
