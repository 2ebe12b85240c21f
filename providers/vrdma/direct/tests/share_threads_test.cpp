// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "share_helper.h"

namespace
{

using vrdma::test::fill;
using vrdma::test::may_hold_system_calls;
using vrdma::test::Memory;
using vrdma::test::page;
using vrdma::test::Share;

// A thread increments counters in pages while they are being moved: expects no lost increment.
TEST(ShareThreads, LosesNoWrite)
{
	constexpr size_t rounds = 2000;
	constexpr size_t pages = 4; // per round
	const Memory memory(rounds * pages * page);
	std::vector<uint64_t> counted(rounds * pages);
	std::atomic<size_t> round = 0;
	std::atomic<size_t> reached = SIZE_MAX;
	const auto counter = [&](size_t i) {
		return reinterpret_cast<volatile uint64_t *>(memory.data() + i * page + 8);
	};
	std::thread counting([&] {
		while (round < rounds) {
			const size_t now = round;
			for (size_t i = now * pages; now < rounds && i < (now + 1) * pages; ++i) {
				*counter(i) = *counter(i) + 1;
				++counted[i];
			}
			reached = now;
		}
	});
	int errors = 0;
	for (; round < rounds; ++round) {
		while (reached != round)
			std::this_thread::yield();
		errors += vrdma_share(
				  memory.data() + round * pages * page, pages * page, true,
				  [](const vrdma_piece *, void *) { return 0; }, nullptr) != 0;
	}
	counting.join();
	EXPECT_EQ(errors, 0);
	uint64_t lost = 0;
	for (size_t i = 0; i < rounds * pages; ++i)
		lost += counted[i] - *counter(i);
	EXPECT_EQ(lost, 0u);
	for (size_t i = 0; i < rounds; ++i)
		vrdma_unshare(memory.data() + i * pages * page, pages * page);
}

// Regions that begin and end within a page. Other data is in the rest of these pages.
class Neighbours
{
      public:
	static constexpr size_t rounds = 200;
	static constexpr size_t pages = 4; // per round
	static constexpr size_t own = page / 2;

	Neighbours() : memory_(rounds * pages * page)
	{
		fill(memory_.data(), rounds * pages * page, 1);
	}
	[[nodiscard]] char *before(size_t round) const
	{
		return memory_.data() + round * pages * page;
	}
	[[nodiscard]] char *region(size_t round) const
	{
		return before(round) + own;
	}
	[[nodiscard]] char *behind(size_t round) const
	{
		return region(round) + length;
	}
	static constexpr size_t length = pages * page - 2 * own;

      private:
	Memory memory_;
};

// Counts the results of system calls by which a thread reads into the memory beside a region.
struct Reading {
	size_t failed = 0, spoiled = 0, other_errors = 0;

	void read(int file, char *target, size_t turn)
	{
		constexpr size_t length = 512;
		std::array<char, length> expected; // NOLINT(cppcoreguidelines-pro-type-member-init)
		fill(expected.data(), length, turn % page);
		const ssize_t n = pread(file, target, length, static_cast<off_t>(turn % page));
		failed += n < 0 && errno == EFAULT;
		other_errors += n < 0 && errno != EFAULT;
		spoiled += n > 0 && std::memcmp(target, expected.data(), n) != 0;
	}
};

// Regions are moved while the kernel writes beside them for one thread, and another thread writes
// there itself. Expects both to find the data that they wrote. Expects no system call to fail if
// the kernel may let them wait.
TEST(ShareThreads, NeighboursOfARegionNoticeNothing)
{
	const Neighbours neighbours;
	const int file = memfd_create("pattern", MFD_CLOEXEC);
	std::vector<char> pattern(2 * page);
	fill(pattern.data(), pattern.size(), 0);
	ASSERT_EQ(pwrite(file, pattern.data(), pattern.size(), 0), 2 * static_cast<ssize_t>(page));
	std::atomic<size_t> round = 0;
	std::array<std::atomic<size_t>, 2> reached = {SIZE_MAX, SIZE_MAX};
	Reading reading;
	std::thread reads([&] {
		for (size_t turn = 0, now = 0; (now = round) < Neighbours::rounds; ++turn) {
			reading.read(file, neighbours.before(now), turn);
			reached[0] = now;
		}
	});
	size_t lost = 0;
	std::thread counts([&] {
		for (size_t turn = 0, now = 0; (now = round) < Neighbours::rounds; ++turn) {
			auto *const word = reinterpret_cast<std::atomic<size_t> *>(
				neighbours.behind(now));
			word->store(turn);
			lost += word->fetch_add(1) != turn;
			lost += word->load() != turn + 1;
			reached[1] = now;
		}
	});
	int errors = 0;
	for (; round < Neighbours::rounds; ++round) {
		while (reached[0] != round || reached[1] != round)
			std::this_thread::yield();
		const Share share(neighbours.region(round), Neighbours::length);
		errors += share.error != 0;
	}
	reads.join();
	counts.join();
	close(file);
	EXPECT_EQ(errors, 0);
	EXPECT_EQ(lost, 0u);
	EXPECT_EQ(reading.spoiled, 0u);
	EXPECT_EQ(reading.other_errors, 0u);
	EXPECT_TRUE(reading.failed == 0 || !may_hold_system_calls()) << reading.failed;
}

// Threads share overlapping memory while others allocate next to it.
TEST(ShareThreads, ShareAndAllocateAtOnce)
{
	std::vector<std::thread> threads;
	std::atomic<int> failures = 0;
	threads.reserve(4);
	for (int t = 0; t < 4; ++t) {
		threads.emplace_back([&failures, t] {
			for (size_t i = 0; i < 500; ++i) {
				std::vector<char> buffer(1 + (i * 37 + t) % 9000,
							 static_cast<char>(t + 1));
				const Share share(buffer.data(), buffer.size());
				failures += share.error != 0;
				for (const char c : buffer)
					failures += c != t + 1;
			}
		});
	}
	for (auto &thread : threads)
		thread.join();
	EXPECT_EQ(failures, 0);
}

TEST(ShareThreads, AStackIsRefusedByItsThread)
{
	int error = 0;
	std::thread([&error] {
		char buffer[10000] = {};
		error = Share(buffer, sizeof(buffer)).error;
	}).join();
	EXPECT_EQ(error, EOPNOTSUPP);
}

} // namespace
