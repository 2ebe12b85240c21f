// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "hold.h"

#include <atomic>
#include <csignal>
#include <fstream>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "share_helper.h"

namespace
{

using vrdma::test::may_hold_system_calls;
using vrdma::test::Memory;
using vrdma::test::page;

bool is_asleep(pid_t thread)
{
	std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
	std::string line;
	std::getline(file, line);
	return line.find(") S ") != std::string::npos;
}

// Runs act in another thread while two pages are held, until the thread is done or sleeps. Then
// ends the hold without a change. Returns whether the thread slept.
template <typename Act> bool sleeps(const Memory &memory, bool is_anonymous, Act act)
{
	const char *content = nullptr;
	EXPECT_EQ(
		vrdma_hold(memory.data(), 2 * page, PROT_READ | PROT_WRITE, is_anonymous, &content),
		0);
	std::atomic<pid_t> id = 0;
	std::atomic<bool> done = false;
	std::thread actor([&] {
		id = gettid();
		act();
		done = true;
	});
	while (!id || !(is_asleep(id) || done))
		std::this_thread::yield();
	const bool slept = !done;
	vrdma_hold_undo();
	actor.join();
	return slept;
}

TEST(Hold, WritersWaitForTheEnd)
{
	for (const bool is_anonymous : {false, true}) {
		const Memory memory(2 * page);
		EXPECT_TRUE(sleeps(memory, is_anonymous, [&] { memory[page + 5] = 'w'; }));
		EXPECT_EQ(memory[page + 5], 'w');
	}
}

TEST(Hold, ContentIsWhereTheHolderIsTold)
{
	const Memory memory(2 * page);
	memory[page + 5] = 'c';
	vrdma_hold_prepare();
	const char *content = nullptr;
	ASSERT_EQ(vrdma_hold(memory.data(), 2 * page, PROT_READ | PROT_WRITE, true, &content), 0);
	EXPECT_EQ(content[page + 5], 'c');
	vrdma_hold_undo();
	EXPECT_EQ(memory[page + 5], 'c');
}

// The kernel writes for a thread: expects the system call to wait as well, or to fail where the
// kernel may not wait.
TEST(Hold, SystemCallsWaitForTheEnd)
{
	vrdma_hold_prepare();
	for (const bool is_touched : {false, true}) {
		const Memory memory(2 * page);
		if (is_touched)
			memory[page + 5] = 't';
		const int pattern = memfd_create("pattern", MFD_CLOEXEC);
		ASSERT_EQ(pwrite(pattern, "w", 1, 0), 1);
		ssize_t n = 0;
		EXPECT_EQ(
			sleeps(memory, true, [&] { n = pread(pattern, &memory[page + 5], 1, 0); }),
			may_hold_system_calls());
		close(pattern);
		EXPECT_EQ(n, may_hold_system_calls() ? 1 : -1);
		EXPECT_EQ(memory[page + 5], n == 1 ? 'w' : is_touched ? 't' : 0);
	}
}

// Expects such a thread to wait without a signal, which it could not get.
TEST(Hold, AThreadThatHasAllSignalsBlockedWaitsForTheEnd)
{
	vrdma_hold_prepare();
	if (!may_hold_system_calls())
		return; // such a thread is killed
	const Memory memory(2 * page);
	EXPECT_TRUE(sleeps(memory, true, [&] {
		sigset_t all;
		sigfillset(&all);
		pthread_sigmask(SIG_BLOCK, &all, nullptr);
		memory[5] = 'w';
	}));
	EXPECT_EQ(memory[5], 'w');
}

} // namespace
