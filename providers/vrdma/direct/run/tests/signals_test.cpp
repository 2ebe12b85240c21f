// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
// Tests that threads that block all signals still wait for memory that is being moved.
#include <cerrno>
#include <csignal>

#include <pthread.h>

#include <gtest/gtest.h>

namespace
{

class Signals : public testing::Test
{
      protected:
	void SetUp() override
	{
		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, nullptr, &before_);
	}
	void TearDown() override
	{
		pthread_sigmask(SIG_SETMASK, &before_, nullptr);
	}

	static bool is_blocked(int number)
	{
		sigset_t now;
		pthread_sigmask(SIG_BLOCK, nullptr, &now);
		return sigismember(&now, number) == 1;
	}

	sigset_t all{};

      private:
	sigset_t before_{};
};

TEST_F(Signals, FaultsAreNotBlockedWithTheOthers)
{
	for (const auto mask : {pthread_sigmask, sigprocmask})
		for (const int how : {SIG_BLOCK, SIG_SETMASK}) {
			ASSERT_EQ(mask(how, &all, nullptr), 0);
			EXPECT_TRUE(is_blocked(SIGUSR1));
			EXPECT_FALSE(is_blocked(SIGSEGV));
			sigset_t old;
			ASSERT_EQ(mask(SIG_UNBLOCK, &all, &old), 0);
			EXPECT_EQ(sigismember(&old, SIGUSR1), 1);
			EXPECT_FALSE(is_blocked(SIGUSR1));
		}
	EXPECT_EQ(sigprocmask(-1, &all, nullptr), -1);
	EXPECT_EQ(errno, EINVAL);
}

volatile sig_atomic_t seen_blocked = -1;

TEST_F(Signals, NorWhileAHandlerRuns)
{
	struct sigaction action {
	};
	struct sigaction before {
	};
	action.sa_mask = all;
	action.sa_handler = [](int) { seen_blocked = is_blocked(SIGSEGV) ? 1 : 0; };
	ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);
	raise(SIGUSR1);
	EXPECT_EQ(seen_blocked, 0);
	ASSERT_EQ(sigaction(SIGUSR1, nullptr, &action), 0);
	EXPECT_NE(action.sa_handler, before.sa_handler);
	EXPECT_EQ(sigismember(&action.sa_mask, SIGUSR2), 1);
	sigaction(SIGUSR1, &before, nullptr);
}

} // namespace
