// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
// Tests that a program that does not use devices sees no difference between the functions that
// vrdma-run replaces and those of the C library.
#include <array>
#include <cerrno>
#include <cstddef>
#include <functional>
#include <initializer_list>

#include <dlfcn.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace
{

/* These system calls kill the process. */
void forbid(const std::array<uint32_t, 3> &calls)
{
	std::array<sock_filter, 6> filter{{
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[0], 3, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[1], 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[2], 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	}};
	const sock_fprog program{filter.size(), filter.data()};

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

// A program forbids itself equivalents of the system calls that its functions need: expects it to
// survive.
TEST(Files, MakeTheSystemCallsOfTheCLibrary)
{
	const int fd = memfd_create("file", MFD_CLOEXEC);
	const pid_t child = fork();
	if (child == 0) {
		forbid({SYS_writev, SYS_faccessat, SYS_faccessat2});
		const bool done = write(fd, "x", 1) == 1 && access("/", F_OK) == 0 &&
				  close(fd) == 0;
		_exit(done ? 0 : 1);
	}
	int status = 0;
	waitpid(child, &status, 0);
	EXPECT_EQ(status, 0);
	char byte = 0;
	EXPECT_EQ(pread(fd, &byte, 1, 0), 1);
	EXPECT_EQ(byte, 'x');
	close(fd);
}

/* Calls a function by its name, as the C library declares paths not to be NULL. */
template <typename... Arguments> long call(const char *name, Arguments... arguments)
{
	return reinterpret_cast<int (*)(Arguments...)>(dlsym(RTLD_DEFAULT, name))(arguments...);
}

// NULL instead of a path: expects EFAULT, as from the kernel.
TEST(Files, RefuseNoPath)
{
	const char *const none = nullptr;
	struct stat status {
	};
	struct statx statusx {
	};

	for (const auto &function : std::initializer_list<std::function<long()>>{
		     [&] { return call("open", none, O_RDONLY); },
		     [&] { return call("access", none, R_OK); },
		     [&] { return call("stat", none, &status); },
		     [&] { return call("lstat", none, &status); },
		     [&] { return call("statx", AT_FDCWD, none, 0, 0U, &statusx); },
		     [&] { return call("getxattr", none, "user.x", &status, size_t{1}); },
		     [&] { return call("lgetxattr", none, "user.x", &status, size_t{1}); },
	     }) {
		errno = 0;
		EXPECT_EQ(function(), -1);
		EXPECT_EQ(errno, EFAULT);
	}
}

} // namespace
