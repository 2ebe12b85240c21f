// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
// What a program finds that does nothing with devices: the functions that vrdma-run replaces are
// the C library's to it.
#include <array>
#include <cerrno>
#include <cstddef>
#include <functional>
#include <initializer_list>

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace
{

/* Any other system call kills the process. */
void allow(const std::array<uint32_t, 4> &calls)
{
	std::array<sock_filter, 7> filter{{
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[0], 4, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[1], 3, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[2], 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[3], 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	}};
	const sock_fprog program{filter.size(), filter.data()};

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

// A program that has allowed itself the system calls of the functions that it uses, and no other:
// expects it to live.
TEST(Files, MakeTheSystemCallsOfTheCLibrary)
{
	const int fd = memfd_create("file", MFD_CLOEXEC);
	const pid_t child = fork();
	if (child == 0) {
		allow({SYS_write, SYS_access, SYS_close, SYS_exit_group});
		const bool done = write(fd, "x", 1) == 1 && access("/", F_OK) == 0 &&
				  close(fd) == 0;
		syscall(SYS_exit_group, done ? 0 : 1);
	}
	int status = 0;
	waitpid(child, &status, 0);
	EXPECT_EQ(status, 0);
	char byte = 0;
	EXPECT_EQ(pread(fd, &byte, 1, 0), 1);
	EXPECT_EQ(byte, 'x');
	close(fd);
}

// NULL in the place of a path: expects EFAULT, as from the kernel.
TEST(Files, RefuseNoPath)
{
	const char *volatile none = nullptr;
	struct stat status {
	};
	struct statx statusx {
	};
	char value = 0;

	for (const auto &call : std::initializer_list<std::function<int64_t()>>{
		     [&] { return open(none, O_RDONLY); },
		     [&] { return access(none, R_OK); },
		     [&] { return stat(none, &status); },
		     [&] { return lstat(none, &status); },
		     [&] { return statx(AT_FDCWD, none, 0, STATX_TYPE, &statusx); },
		     [&] { return getxattr(none, "user.x", &value, sizeof(value)); },
		     [&] { return lgetxattr(none, "user.x", &value, sizeof(value)); },
	     }) {
		errno = 0;
		EXPECT_EQ(call(), -1);
		EXPECT_EQ(errno, EFAULT);
	}
}

} // namespace
