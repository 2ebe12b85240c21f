// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "share_helper.h"

namespace
{

using vrdma::test::Memory;
using vrdma::test::page;
using vrdma::test::Share;

// A thread counts on the pages that are being moved, and knows what it has counted.
TEST(ShareThreads, LosesNoWrite)
{
	constexpr size_t rounds = 2000;
	constexpr size_t pages = 4; // of a round
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

// Threads share what overlaps while others allocate next to it.
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
