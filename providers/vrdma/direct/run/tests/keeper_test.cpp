// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
// Tests the keeper with a fake vrdmad (fake_vrdmad.c) and a program that does nothing.
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "directory.h"
#include "keeper.h"

namespace
{

constexpr int long_ms = 20000;
constexpr int short_ms = 100;

bool is_there(pid_t pid)
{
	return kill(pid, 0) == 0;
}

class Keeper : public testing::Test
{
      protected:
	void SetUp() override
	{
		directory = vrdma_run_make_directory();
		ASSERT_NE(directory, nullptr);
		std::ofstream{std::string(directory) + "/vrdmad.conf"};
		pid_file = std::string(directory) + ".pid";
		program = fork();
		if (program == 0)
			for (;;)
				pause();
		ASSERT_EQ(pipe2(started, O_CLOEXEC), 0);
	}

	void TearDown() override
	{
		end_program();
		close(started[0]);
		std::filesystem::remove(pid_file);
		vrdma_run_remove_directory(directory);
		free(directory);
	}

	void start(const char *manner, int start_ms = long_ms, int end_ms = long_ms,
		   const char *vrdmad = FAKE_VRDMAD)
	{
		const vrdma_run_keeper options{
			vrdmad,
			directory,
			static_cast<int>(syscall(SYS_pidfd_open, program, 0)),
			started[1],
			start_ms,
			end_ms,
		};
		keeper = fork();
		if (keeper == 0) {
			setenv("FAKE_MANNER", manner, 1);
			setenv("FAKE_PID", pid_file.c_str(), 1);
			setenv("LD_PRELOAD", "", 1);
			vrdma_run_keep(&options);
		}
		close(options.program);
		close(started[1]);
	}

	// Whether the keeper reports that vrdmad serves.
	bool serves() const
	{
		char byte;
		return read(started[0], &byte, 1) == 1;
	}

	void end_program()
	{
		if (program == 0)
			return;
		kill(program, SIGKILL);
		waitpid(program, nullptr, 0);
		program = 0;
	}

	// Waits for the keeper's end. Returns its status.
	int wait_for_keeper() const
	{
		int status = -1;
		EXPECT_EQ(waitpid(keeper, &status, 0), keeper);
		return status;
	}

	pid_t vrdmad() const
	{
		pid_t pid = 0;
		std::ifstream{pid_file} >> pid;
		EXPECT_NE(pid, 0);
		return pid;
	}

	// Expects the keeper to succeed and to leave no files.
	void expect_end()
	{
		EXPECT_EQ(wait_for_keeper(), 0);
		EXPECT_FALSE(std::filesystem::exists(directory));
	}

	char *directory = nullptr;
	std::string pid_file;
	pid_t program = 0, keeper = 0;
	int started[2] = {-1, -1};
};

// End the program; expect vrdmad to end, and the directory to be removed.
TEST_F(Keeper, EndsWithTheProgram)
{
	start("ready");
	ASSERT_TRUE(serves());
	const pid_t ended = vrdmad();
	EXPECT_TRUE(is_there(ended));
	end_program();
	expect_end();
	EXPECT_FALSE(is_there(ended));
}

// The same with a vrdmad that ignores SIGTERM; expect it to be killed.
TEST_F(Keeper, KillsWhatDoesNotEnd)
{
	start("stubborn", long_ms, short_ms);
	ASSERT_TRUE(serves());
	const pid_t ended = vrdmad();
	end_program();
	expect_end();
	EXPECT_FALSE(is_there(ended));
}

// Send signals that ask the keeper to end; expect it to continue until the program ends.
TEST_F(Keeper, GoesOnWhileTheProgramDoes)
{
	start("ready");
	ASSERT_TRUE(serves());
	for (const int signal : {SIGTERM, SIGINT, SIGHUP})
		EXPECT_EQ(kill(keeper, signal), 0);
	EXPECT_TRUE(is_there(vrdmad()));
	EXPECT_EQ(waitpid(keeper, nullptr, WNOHANG), 0);
	end_program();
	expect_end();
}

// Kill the keeper; expect vrdmad to be killed. The test sees that as the new parent of vrdmad.
TEST_F(Keeper, TakesVrdmadAlong)
{
	ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	start("ready");
	ASSERT_TRUE(serves());
	const pid_t kept = vrdmad();
	kill(keeper, SIGKILL);
	wait_for_keeper();
	int status = 0;
	EXPECT_EQ(waitpid(kept, &status, 0), kept);
	EXPECT_TRUE(WIFSIGNALED(status));
}

// A vrdmad that reports nothing; expect the keeper to report that it does not serve.
TEST_F(Keeper, GivesUpWhatIsNeverReady)
{
	start("silent", short_ms);
	EXPECT_FALSE(serves());
	expect_end();
}

// The same, with a long timeout; expect the keeper to notice the end of the program.
TEST_F(Keeper, DoesNotWaitForVrdmadAlone)
{
	start("silent");
	end_program();
	EXPECT_FALSE(serves());
	expect_end();
}

// A vrdmad that ends, or cannot be started; expect the keeper to report it at once.
TEST_F(Keeper, TellsThatVrdmadEnds)
{
	start("fails");
	EXPECT_FALSE(serves());
	expect_end();
}

TEST_F(Keeper, TellsThatThereIsNoVrdmad)
{
	start("ready", long_ms, long_ms, "/nowhere/vrdmad");
	EXPECT_FALSE(serves());
	expect_end();
}

// A vrdmad that ends before the program; expect no files to be left, and the program to continue.
TEST_F(Keeper, OutlivesNoVrdmad)
{
	start("deserts");
	EXPECT_TRUE(serves());
	expect_end();
	EXPECT_EQ(waitpid(program, nullptr, WNOHANG), 0);
}

} // namespace
