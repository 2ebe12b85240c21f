// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
// Tests which files of a program are channels of the connection manager, also if the program reuses
// their numbers.
#include <array>
#include <cerrno>
#include <cstdint>
#include <fstream>
#include <future>
#include <string>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../vrdmadv.h"
#include "network.h"

namespace vrdma::cm
{
namespace
{

class Service : public testing::Test
{
      protected:
	void SetUp() override
	{
		fd = vrdmadv_cm_open(nullptr, 0);
		ASSERT_GE(fd, 0);
	}
	void TearDown() override
	{
		vrdmadv_cm_close(fd);
		close(fd);
	}

	/* Puts another file in the channel's place, as close_range() and open() do. */
	void replace() const
	{
		const int file = memfd_create("file", MFD_CLOEXEC);
		ASSERT_GE(file, 0);
		ASSERT_EQ(dup2(file, fd), fd);
		close(file);
	}

	int fd = -1;
};

// Expects a file to be a channel until it is closed, and to be readable only while it has events.
TEST_F(Service, OpensAndCloses)
{
	pollfd readable{fd, POLLIN, 0};
	EXPECT_TRUE(vrdmadv_cm_is_open(fd));
	EXPECT_EQ(poll(&readable, 1, 0), 0);
	vrdmadv_cm_close(fd);
	EXPECT_FALSE(vrdmadv_cm_is_open(fd));
	EXPECT_FALSE(vrdmadv_cm_is_open(-1));
}

// Another file gets the number of a channel: expects it to be no channel, and commands to fail.
TEST_F(Service, AReusedNumberIsNoChannel)
{
	replace();
	EXPECT_FALSE(vrdmadv_cm_is_open(fd));
	EXPECT_EQ(vrdmadv_cm_write(fd, "hello", 5), -1);
	EXPECT_EQ(errno, EBADF);
}

// The same in a child of fork(), which closes its parent's channel: expects the parent to keep it.
TEST_F(Service, AReusedNumberOfAChildIsNoChannel)
{
	const pid_t child = fork();
	if (child == 0) {
		const bool inherited = vrdmadv_cm_is_open(fd);
		vrdmadv_cm_close(fd);
		close(fd);
		const int file = open("/dev/null", O_WRONLY | O_CLOEXEC);
		_exit(inherited && file == fd && !vrdmadv_cm_is_open(fd) ? 0 : 1);
	}
	int status = 0;
	waitpid(child, &status, 0);
	EXPECT_EQ(status, 0);
	EXPECT_TRUE(vrdmadv_cm_is_open(fd));
}

// A channel's file is replaced and closed, and the next channel gets its number: expects the new
// one to work.
TEST_F(Service, ANewChannelTakesALostOnesNumber)
{
	replace();
	close(fd);
	ASSERT_EQ(vrdmadv_cm_open(nullptr, 0), fd);
	EXPECT_TRUE(vrdmadv_cm_is_open(fd));
	const rdma_ucm_cmd_hdr unknown{~0U, 0, 0};
	EXPECT_EQ(vrdmadv_cm_write(fd, &unknown, sizeof(unknown)), -1);
	EXPECT_NE(errno, EBADF);
}

// Waits until a thread of this process waits for the lock.
void await_waiter(pid_t thread, const pthread_mutex_t &lock)
{
	const std::string path = "/proc/self/task/" + std::to_string(thread) + "/syscall";
	std::string number;
	std::uintptr_t address = 0;

	while (number != std::to_string(SYS_futex) ||
	       address != reinterpret_cast<std::uintptr_t>(&lock)) {
		std::ifstream(path) >> number >> std::hex >> address;
		sched_yield();
	}
}

// Forks while another thread has the connection manager's lock. That thread takes the devices' lock
// then, which the fork must not have taken yet.
[[noreturn]] void fork_under_the_lock()
{
	std::promise<pid_t> forking;

	alarm(60);
	vrdmadv_cm_open(nullptr, 0);
	vrdma_dev_handle_forks(); // as the first device does
	pthread_mutex_lock(&vrdma_cm_lock);
	std::thread forker([&] {
		forking.set_value(gettid());
		if (fork() == 0)
			_exit(0);
	});
	await_waiter(forking.get_future().get(), vrdma_cm_lock);
	vrdma_dev_find([](vrdma_dev *, void *) { return false; }, nullptr);
	pthread_mutex_unlock(&vrdma_cm_lock);
	forker.join();
	_exit(0);
}

// The first channel is opened before the first device: expects fork() to take the connection
// manager's lock before the devices'. A process of its own has registered no handlers before.
TEST(ServiceForks, TheDevicesLockIsTakenLast)
{
	testing::GTEST_FLAG(death_test_style) = "threadsafe";
	EXPECT_EXIT(fork_under_the_lock(), testing::ExitedWithCode(0), "");
}

using Files = Network;

// An event of a channel whose number another file has: expects nothing to be written to that file.
TEST_F(Files, EventsAreNotWrittenToOtherFiles)
{
	const int fd = client.channel->fd;
	const int file = memfd_create("file", MFD_CLOEXEC);
	ASSERT_EQ(dup2(file, fd), fd);
	vrdma_cm_id *id = vrdma_cm_id_new(client.channel, RDMA_PS_TCP);
	ASSERT_NE(id, nullptr);
	id->uid = 1;
	ASSERT_NE(vrdma_cm_event_add(id, VRDMA_CM_ADDR_RESOLVED, 0), nullptr);
	struct stat status {
	};
	ASSERT_EQ(fstat(file, &status), 0);
	EXPECT_EQ(status.st_size, 0);
	vrdma_cm_destroy(id);
	close(file);
}

} // namespace
} // namespace vrdma::cm
