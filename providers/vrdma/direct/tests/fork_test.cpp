// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <future>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "private.h"
#include "share_helper.h"

namespace
{

using vrdma::test::fill;
using vrdma::test::is_filled;
using vrdma::test::Memory;
using vrdma::test::page;
using vrdma::test::Share;

// Runs function in a child. Returns its result, or -1 if a signal killed the child.
template <typename Function> int in_child(Function function)
{
	const pid_t child = fork();
	if (child == 0)
		_exit(function());
	int status = 0;
	waitpid(child, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// Like in_child(), but no fork handler runs in the child.
template <typename Function> int in_raw_child(Function function)
{
	const auto child = static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
	if (child == 0)
		syscall(SYS_exit_group, function());
	int status = 0;
	waitpid(child, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Fork, ChildAndParentDoNotSeeEachOther)
{
	const Memory memory(4 * page);
	std::memset(memory.data(), 'x', 2 * page);
	const Share share(memory.data(), 4 * page);
	ASSERT_EQ(share.error, 0);
	int written[2];
	ASSERT_EQ(pipe(written), 0);
	const pid_t child = fork();
	if (child == 0) {
		char byte = 0;
		if (read(written[0], &byte, 1) != 1)
			_exit(1);
		// The child sees the parent's writes from before the fork, and no later ones.
		if (memory[0] != 'x' || memory[page] != 'x' || memory[3 * page] != 0)
			_exit(2);
		memory[1] = 'c';
		memory[2 * page] = 'c';
		_exit(memory[1] == 'c' ? 0 : 3);
	}
	memory[0] = 'p';
	memory[3 * page] = 'p';
	ASSERT_EQ(write(written[1], "w", 1), 1);
	int status = 0;
	waitpid(child, &status, 0);
	EXPECT_EQ(status, 0);
	EXPECT_EQ(memory[1], 'x');
	EXPECT_EQ(memory[2 * page], 0);
	EXPECT_EQ(share.pieces[0].read(0), 'p');
	close(written[0]);
	close(written[1]);
}

TEST(Fork, TheParentsHeapStaysIntact)
{
	auto text = std::make_unique<std::string>(1000, 'a');
	const Share share(text->data(), text->size());
	ASSERT_EQ(share.error, 0);
	EXPECT_EQ(in_child([&] {
			  std::memset(text->data(), 'b', text->size());
			  text.reset();
			  std::string other(5000, 'c');
			  return other.back() == 'c' ? 0 : 1;
		  }),
		  0);
	EXPECT_EQ(*text, std::string(1000, 'a'));
}

TEST(Fork, ChildSharesItsOwn)
{
	const Memory memory(2 * page);
	memory[0] = 'x';
	const Share share(memory.data(), 2 * page);
	ASSERT_EQ(share.error, 0);
	EXPECT_EQ(in_child([&] {
			  const Share own(memory.data(), 2 * page);
			  if (own.error || own.pieces[0].inode() == share.pieces[0].inode())
				  return 1;
			  memory[0] = 'c';
			  // A child of the child.
			  const int below = in_child([&] {
				  if (memory[0] != 'c')
					  return 3;
				  memory[0] = 'd';
				  return Share(memory.data(), page).error;
			  });
			  return own.pieces[0].read(0) == 'c' ? below : 2;
		  }),
		  0);
	EXPECT_EQ(memory[0], 'x');
	memory[0] = 'p';
	EXPECT_EQ(share.pieces[0].read(0), 'p');
}

TEST(Fork, KeepsProtection)
{
	const Memory memory(page);
	memory[0] = 'x';
	const Share share(memory.data(), page);
	ASSERT_EQ(mprotect(memory.data(), page, PROT_READ), 0);
	EXPECT_EQ(in_child([&] {
			  const bool writable = Share(memory.data(), page, true).error != EFAULT;
			  return writable || memory[0] != 'x' ? 1 : 0;
		  }),
		  0);
}

TEST(Fork, WhatIsNotForTheChildIsNotThere)
{
	const Memory memory(page);
	const Share share(memory.data(), page);
	ASSERT_EQ(madvise(memory.data(), page, MADV_DONTFORK), 0);
	EXPECT_EQ(in_child([&] { return Share(memory.data(), page).error; }), EFAULT);
}

TEST(Fork, QueueMemoryIsPrivateInAChild)
{
	vrdma_piece piece{};
	ASSERT_EQ(vrdma_shared_alloc(page, &piece), 0);
	auto *const data = static_cast<char *>(piece.address);
	data[0] = 'x';
	EXPECT_EQ(in_child([&] {
			  const bool kept = data[0] == 'x';
			  data[0] = 'c';
			  return kept ? 0 : 1;
		  }),
		  0);
	EXPECT_EQ(data[0], 'x');
	vrdma_shared_free(&piece);
}

// A daemon is in a chroot without /proc: expects its children to get their copies.
TEST(Fork, WorksInAChroot)
{
	std::string jail = testing::TempDir() + "fork_test_XXXXXX";
	ASSERT_NE(mkdtemp(jail.data()), nullptr);
	EXPECT_EQ(in_child([&] {
			  const Memory memory(2 * page);
			  memory[0] = 'x';
			  const Share share(memory.data(), 2 * page);
			  if (share.error || chroot(jail.c_str()) || chdir("/"))
				  return 1;
			  const int ret = in_child([&] {
				  const bool copied = memory[0] == 'x';
				  memory[0] = memory[page] = 'c';
				  return copied ? 0 : 2;
			  });
			  return memory[0] == 'x' && memory[page] == 0 ? ret : 3;
		  }),
		  0);
	rmdir(jail.c_str());
}

// A thread's first allocation is in the first page of a heap, where glibc counts the heap's
// threads. If a child wrote its own count there, glibc would abort when a thread ends.
TEST(Fork, LeavesTheHeapsOfThreadsAlone)
{
	std::promise<void> shared, forked;
	std::thread owner([&] {
		auto *const buffer = static_cast<char *>(std::malloc(2 * page));
		{
			const Share share(buffer, 2 * page);
			EXPECT_EQ(share.error, 0);
			shared.set_value();
			forked.get_future().wait();
		}
		std::free(buffer);
	});
	shared.get_future().wait();
	// The child's own heap works.
	EXPECT_EQ(in_child([] { return std::string(9000, 'x').back() == 'x' ? 0 : 1; }), 0);
	forked.set_value();
	owner.join();
}

// The same if the program has blocked the signal by which the child gets its pages.
TEST(Fork, WorksWithSignalsBlocked)
{
	std::thread([] {
		const std::string text(2 * page, 'x');
		const Share share(const_cast<char *>(text.data()), text.size());
		ASSERT_EQ(share.error, 0);
		sigset_t all, blocked;
		sigfillset(&all);
		pthread_sigmask(SIG_BLOCK, &all, nullptr);
		EXPECT_EQ(in_child([&] {
				  pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
				  return sigismember(&blocked, SIGSEGV) == 1 && text.back() == 'x'
						 ? 0
						 : 1;
			  }),
			  0);
		pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
		EXPECT_EQ(sigismember(&blocked, SIGSEGV), 1);
	}).join();
}

TEST(Fork, AGrandchildSharesMemoryOfItsOwn)
{
	const Memory memory(2 * page);
	const Share share(memory.data(), page);
	ASSERT_EQ(share.error, 0);
	const auto share_other = [&] { return Share(memory.data() + page, page).error; };
	EXPECT_EQ(in_child([&] { return in_child(share_other); }), 0);
}

// A child that clone() created has its parent's pages. It can read them. Expects the child not to
// take them from the parent when it frees or registers memory.
TEST(Fork, AChildWithoutHandlersTakesNothingFromItsParent)
{
	// In a process of its own, whose heap was never moved: parent and child use their heaps.
	EXPECT_EQ(in_child([] {
			  const Memory memory(4 * page);
			  fill(memory.data(), 4 * page, 1);
			  const Share share(memory.data(), 4 * page);
			  const int ret = in_raw_child([&] {
				  if (!is_filled(memory.data(), 4 * page, 1))
					  return 1;
				  if (vrdma_private_madvise(memory.data(), page, MADV_DONTNEED))
					  return 2;
				  munmap(memory.data() + page, page);
				  vrdma_unshare(memory.data(), 4 * page);
				  const Memory other(page);
				  return Share(other.data(), page).error == EIO ? 0 : 3;
			  });
			  return is_filled(memory.data(), 4 * page, 1) ? ret : 4;
		  }),
		  0);
}

// Another thread registers memory when such a child is created: expects the child not to wait for
// the lock.
TEST(Fork, AChildWithoutHandlersWaitsForNobody)
{
	const Memory memory(page);
	int status = -1;
	const auto visit = [](const vrdma_piece *piece, void *arg) {
		*static_cast<int *>(arg) = in_raw_child([&] {
			alarm(10);
			vrdma_unshare(piece->address, piece->length);
			return 0;
		});
		return 0;
	};
	ASSERT_EQ(vrdma_share(memory.data(), page, true, visit, &status), 0);
	EXPECT_EQ(status, 0);
	vrdma_unshare(memory.data(), page);
}

} // namespace
