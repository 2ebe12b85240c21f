// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include <cstring>
#include <memory>
#include <utility>

#include <gtest/gtest.h>

#include "share_helper.h"

namespace
{

using vrdma::test::fill;
using vrdma::test::is_filled;
using vrdma::test::Memory;
using vrdma::test::page;
using vrdma::test::Piece;
using vrdma::test::Share;

// The pages must stay in the file for the device until the last share ends. Then they are freed.
TEST(Reclaim, GivesBackWhatIsUnmapped)
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

// Memory that was unmapped after its last share ended is freed after enough other memory was
// released.
TEST(Reclaim, GivesBackWhatIsUnmappedLater)
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

TEST(Reclaim, SharesAnewWhatIsMappedAnew)
{
	Memory memory(4 * page);
	fill(memory.data(), 4 * page, 3);
	for (unsigned round = 0; round < 3; ++round) {
		const Share share(memory.data(), 4 * page);
		ASSERT_EQ(share.error, 0);
		// Maps new memory over two pages while they are still shared.
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

TEST(Reclaim, GivesBackAllocations)
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
