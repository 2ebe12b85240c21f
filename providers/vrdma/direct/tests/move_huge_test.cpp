// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include <cerrno>
#include <cstring>
#include <fstream>
#include <list>
#include <memory>
#include <utility>

#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <sys/wait.h>

#include "share_helper.h"

namespace
{

using vrdma::test::fill;
using vrdma::test::is_filled;
using vrdma::test::Memory;
using vrdma::test::page;
using vrdma::test::Piece;
using vrdma::test::Share;

constexpr size_t huge_page = size_t{2} << 20;
constexpr int private_huge = MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | 21 << MAP_HUGE_SHIFT;

// Lets the kernel allocate some more huge pages on demand.
class HugePool
{
      public:
	HugePool()
	{
		std::ifstream(limit) >> before_;
		set(before_ + 32);
	}
	~HugePool()
	{
		set(before_);
	}
	HugePool(const HugePool &) = delete;
	HugePool &operator=(const HugePool &) = delete;

	// Takes all huge pages. No process gets any more until `all` is gone.
	void exhaust(std::list<Memory> &all) const
	{
		set(0);
		do
			all.emplace_back(huge_page, PROT_READ, private_huge);
		while (all.back().data() != MAP_FAILED);
		all.pop_back();
	}

      private:
	static constexpr auto limit =
		"/sys/kernel/mm/hugepages/hugepages-2048kB/nr_overcommit_hugepages";

	static void set(unsigned long pages)
	{
		std::ofstream(limit) << pages;
	}

	unsigned long before_ = 0;
};

// The number of huge pages in the file.
size_t pages(const Piece &piece)
{
	struct stat status = {};
	EXPECT_EQ(fstat(piece.fd, &status), 0);
	return static_cast<size_t>(status.st_blocks) * 512 / huge_page;
}

class MoveHuge : public ::testing::Test
{
      protected:
	HugePool pool;
};

TEST_F(MoveHuge, KeepsContentAndTheSizeOfPages)
{
	const Memory memory(4 * huge_page, PROT_READ | PROT_WRITE, private_huge);
	fill(memory.data(), huge_page, 1);
	fill(memory.data() + 2 * huge_page, huge_page, 2);
	const Share untouched(memory.data() + 3 * huge_page, page);
	ASSERT_EQ(untouched.error, 0);
	const size_t before = pages(untouched.pieces[0]);
	const Share share(memory.data() + 2 * page, 2 * huge_page);
	ASSERT_EQ(share.error, 0);
	ASSERT_EQ(share.pieces.size(), 1u);
	EXPECT_TRUE(is_filled(memory.data(), huge_page, 1));
	EXPECT_TRUE(is_filled(memory.data() + 2 * huge_page, huge_page, 2));

	const Piece &piece = share.pieces[0];
	EXPECT_EQ(piece.address, memory.data() + 2 * page);
	EXPECT_EQ(piece.length, 2 * huge_page);
	struct statfs filesystem = {};
	ASSERT_EQ(fstatfs(piece.fd, &filesystem), 0);
	EXPECT_EQ(filesystem.f_type, HUGETLBFS_MAGIC);
	EXPECT_EQ(filesystem.f_bsize, static_cast<long>(huge_page));
	EXPECT_LE(pages(piece), before + 2) << "what was not touched is a hole";

	const Memory device(huge_page, PROT_READ | PROT_WRITE, MAP_SHARED, piece.fd,
			    static_cast<off_t>(piece.offset - 2 * page));
	device[3 * page] = 'd';
	EXPECT_EQ(memory[3 * page], 'd');
}

TEST_F(MoveHuge, GivesBackWhatIsUnmapped)
{
	auto memory = std::make_unique<Memory>(2 * huge_page, PROT_READ | PROT_WRITE, private_huge);
	std::memset(memory->data(), 'x', 2 * huge_page);
	auto first = std::make_unique<Share>(memory->data() + page, page);
	auto second = std::make_unique<Share>(memory->data() + huge_page + page, page);
	ASSERT_EQ(first->error, 0);
	ASSERT_EQ(second->error, 0);
	const Piece piece(std::move(second->pieces[0]));
	const size_t before = pages(piece);
	memory.reset();
	first.reset();
	EXPECT_EQ(pages(piece), before - 1);
	EXPECT_EQ(piece.read(0), 'x');
	second.reset();
	EXPECT_EQ(pages(piece), before - 2);
}

TEST_F(MoveHuge, AChildHasItsOwn)
{
	const Memory memory(huge_page, PROT_READ | PROT_WRITE, private_huge);
	fill(memory.data(), huge_page, 3);
	const Share share(memory.data(), page);
	ASSERT_EQ(share.error, 0);
	const pid_t child = fork();
	if (child == 0) {
		const bool kept = is_filled(memory.data(), huge_page, 3);
		memory[0] = 'c';
		_exit(kept ? 0 : 1);
	}
	int status = 0;
	waitpid(child, &status, 0);
	EXPECT_EQ(status, 0);
	EXPECT_TRUE(is_filled(memory.data(), huge_page, 3));
}

// Moving needs one more page than the pool has.
TEST_F(MoveHuge, WithoutASparePageNothingChanges)
{
	const Memory memory(2 * huge_page, PROT_READ | PROT_WRITE, private_huge);
	fill(memory.data(), 2 * huge_page, 4);
	{
		std::list<Memory> all;
		pool.exhaust(all);
		EXPECT_EQ(Share(memory.data(), 2 * huge_page).error, ENOMEM);
		EXPECT_TRUE(is_filled(memory.data(), 2 * huge_page, 4));
		memory[0] = 'x';
	}
	const HugePool again;
	EXPECT_EQ(Share(memory.data(), 2 * huge_page).error, 0);
	EXPECT_EQ(memory[0], 'x');
}

} // namespace
