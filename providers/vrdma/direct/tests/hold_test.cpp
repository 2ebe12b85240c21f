// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "hold.h"

#include <atomic>
#include <fstream>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "share_helper.h"

namespace
{

using vrdma::test::Memory;
using vrdma::test::page;

bool is_asleep(pid_t thread)
{
	std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
	std::string line;
	std::getline(file, line);
	return line.find(") S ") != std::string::npos;
}

TEST(Hold, WritersWaitForTheEnd)
{
	const Memory memory(2 * page);
	ASSERT_EQ(vrdma_hold(memory.data(), 2 * page, PROT_READ | PROT_WRITE), 0);
	std::atomic<pid_t> id = 0;
	std::atomic<bool> written = false;
	std::thread writer([&] {
		id = gettid();
		memory[page + 5] = 'w';
		written = true;
	});
	while (!id || !(is_asleep(id) || written))
		std::this_thread::yield();
	EXPECT_FALSE(written);
	mprotect(memory.data(), 2 * page, PROT_READ | PROT_WRITE);
	vrdma_hold_end();
	writer.join();
	EXPECT_EQ(memory[page + 5], 'w');
}

} // namespace
