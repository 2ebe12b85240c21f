// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include <array>
#include <cerrno>
#include <string>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "given_devices.h"

namespace
{

using Network = GivenDevices;
using Answers = std::array<int, 6>;

/* Calls each function that returns a file's status. Returns the kinds of file, or errnos. */
Answers ask(const std::string &text)
{
	const char *path = text.c_str();
	struct stat status {
	};
	struct stat64 status64 {
	};
	struct statx statusx {
	};
	const auto answer = [](int ret, const auto &mode) {
		return ret == 0 ? static_cast<int>(mode & S_IFMT) : errno;
	};

	return {answer(stat(path, &status), status.st_mode),
		answer(lstat(path, &status), status.st_mode),
		answer(stat64(path, &status64), status64.st_mode),
		answer(lstat64(path, &status64), status64.st_mode),
		answer(statx(AT_FDCWD, path, 0, STATX_TYPE, &statusx), statusx.stx_mode),
		answer(statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_TYPE, &statusx),
		       statusx.stx_mode)};
}

Answers all(int kind)
{
	Answers answers{};

	answers.fill(kind);
	return answers;
}

std::string content(int fd)
{
	std::array<char, 64> text{};

	EXPECT_GE(fd, 0);
	EXPECT_GE(read(fd, text.data(), text.size() - 1), 0);
	close(fd);
	return text.data();
}

TEST_F(Network, IsADirectoryOfDirectories)
{
	for (const char *rest : {"", "/", "//", "/.", "/lo", "//lo", "/lo/", "/lo/statistics"}) {
		const std::string path = directory(0) + rest;

		EXPECT_EQ(ask(path), all(S_IFDIR)) << path;
		EXPECT_EQ(ask(directory(3) + rest), all(S_IFDIR)) << path;
		EXPECT_EQ(access(path.c_str(), R_OK), 0) << path;
	}
}

TEST_F(Network, HasFilesOfInterfaces)
{
	const std::string path = directory(0) + "/lo/address";

	EXPECT_EQ(ask(path), all(S_IFREG));
	EXPECT_EQ(content(open(path.c_str(), O_RDONLY)), "00:00:00:00:00:00\n");
	EXPECT_EQ(content(open64(path.c_str(), O_RDONLY)), "00:00:00:00:00:00\n");
	EXPECT_EQ(getxattr(path.c_str(), "user.none", nullptr, 0), -1);
	EXPECT_NE(errno, ENOENT);
	EXPECT_EQ(lgetxattr(path.c_str(), "user.none", nullptr, 0), -1);
	EXPECT_NE(errno, ENOENT);
}

TEST_F(Network, IsNotThereWithoutAnInterface)
{
	for (const int device : {1, 2, 4})
		for (const char *rest : {"", "/", "/lo"}) {
			const std::string path = directory(device) + rest;

			EXPECT_EQ(ask(path), all(ENOENT)) << path;
			EXPECT_EQ(access(path.c_str(), F_OK), -1) << path;
		}
}

TEST_F(Network, HasNothingElse)
{
	for (const char *rest : {"/l", "/loo", "/vrdma0", "s", "s/lo"})
		EXPECT_EQ(ask(directory(0) + rest), all(ENOENT)) << rest;
	for (const char *name : {"vrdma", "vrdma00", "vrdma0x", "vrdma-0", "mlx5_0", ""})
		EXPECT_EQ(ask(std::string("/sys/class/infiniband/") + name + "/device/net"),
			  all(ENOENT))
			<< name;
}

/* A list may contain text that is too long for an address, or is no address. */
TEST_F(Network, PassesOverWhatIsNoAddress)
{
	const std::string odd = "/a,," + std::string(100, '1') + ",1.2.3,x,127.0.0.1,";

	setenv("VRDMA_RUN_DEVICES", odd.c_str(), 1);
	EXPECT_EQ(ask(directory(0) + "/lo"), all(S_IFDIR));
	setenv("VRDMA_RUN_DEVICES", "/a,127.0.0.1x", 1);
	EXPECT_EQ(ask(directory(0)), all(ENOENT));
}

/* Programs do this to find out whether their kernel has statx(). */
TEST_F(Network, LetsTheKernelAnswerForNoPathAtAll)
{
	using Statx = int (*)(int, const char *, int, unsigned int, struct statx *);
	const auto without_attributes = reinterpret_cast<Statx>(dlsym(RTLD_DEFAULT, "statx"));
	struct statx status {
	};

	EXPECT_EQ(without_attributes(0, nullptr, 0, STATX_TYPE, &status), -1);
	EXPECT_EQ(errno, EFAULT);
}

} // namespace
