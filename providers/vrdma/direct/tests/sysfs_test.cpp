// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "sysfs.h"

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <string>

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace fs = std::filesystem;

namespace
{

class Sysfs : public testing::Test
{
      protected:
	void SetUp() override
	{
		setenv("XDG_RUNTIME_DIR", parent_.c_str(), 1);
	}
	void TearDown() override
	{
		unsetenv("XDG_RUNTIME_DIR");
		fs::remove_all(parent_);
	}

	static vrdma_sysfs make()
	{
		const std::array<ibv_gid, 2> gids{{{{0xfe, 0x80, 1}}, {{0xfe, 0x80, 2}}}};
		vrdma_sysfs sysfs{};
		const std::array<uint16_t, 2> pkeys{0xffff, 0x1};
		EXPECT_EQ(vrdma_sysfs_make(&sysfs, gids.data(), gids.size(), pkeys.data(),
					   pkeys.size()),
			  0);
		return sysfs;
	}

	std::set<std::string> present() const
	{
		std::set<std::string> paths;
		for (const auto &entry : fs::directory_iterator(parent_))
			paths.insert(entry.path());
		return paths;
	}

	/*
	 * Runs action in a process that then ends without cleaning up. Returns false if the action
	 * failed.
	 */
	static bool in_a_child(const std::function<void()> &action)
	{
		const pid_t child = fork();
		if (child == 0) {
			action();
			_exit(HasFailure() ? 1 : 0);
		}
		int status = 0;
		return waitpid(child, &status, 0) == child && status == 0;
	}

	static fs::path make_parent()
	{
		std::string path = testing::TempDir() + "sysfs_test_XXXXXX";
		mkdtemp(path.data());
		fs::permissions(path, fs::perms(0755));
		return path;
	}

	fs::path parent_ = make_parent();
};

std::string line(const fs::path &path)
{
	std::string text;
	std::getline(std::ifstream(path) >> std::ws, text);
	return text;
}

TEST_F(Sysfs, HoldsWhatLibibverbsReads)
{
	vrdma_sysfs sysfs = make();
	const fs::path port = fs::path(sysfs.path) / "ports/1";
	EXPECT_EQ(line(port / "gids/0"), "fe80:0100:0000:0000:0000:0000:0000:0000");
	EXPECT_EQ(line(port / "gids/1"), "fe80:0200:0000:0000:0000:0000:0000:0000");
	EXPECT_EQ(line(port / "gids/33"), "0000:0000:0000:0000:0000:0000:0000:0000");
	EXPECT_EQ(line(port / "gid_attrs/types/0"), "IB/RoCE v1");
	EXPECT_EQ(line(port / "gid_attrs/types/1"), "RoCE v2");
	EXPECT_EQ(line(port / "pkeys/0"), "0xffff");
	EXPECT_EQ(line(port / "pkeys/1"), "0x0001");
	EXPECT_FALSE(fs::exists(port / "pkeys/2"));
	vrdma_sysfs_remove(&sysfs);
	EXPECT_TRUE(present().empty());
}

// Becomes another user, with a umask that hides files: expects GIDs to remain readable.
TEST_F(Sysfs, AProcessMayBecomeAnotherUser)
{
	EXPECT_TRUE(in_a_child([] {
		umask(0777);
		const vrdma_sysfs sysfs = make();
		ASSERT_EQ(setgid(65534), 0);
		ASSERT_EQ(setuid(65534), 0);
		const fs::path port = fs::path(sysfs.path) / "ports/1";
		EXPECT_EQ(line(port / "gids/1"), "fe80:0200:0000:0000:0000:0000:0000:0000");
		EXPECT_EQ(line(port / "gid_attrs/types/1"), "RoCE v2");
		EXPECT_EQ(line(port / "pkeys/0"), "0xffff");
	}));
}

// Only root can search the runtime directory: expects another place, which other users can search.
TEST_F(Sysfs, IsNotWhereOthersCannotSearch)
{
	fs::permissions(parent_, fs::perms(0700));
	vrdma_sysfs sysfs = make();
	EXPECT_TRUE(present().empty());
	EXPECT_EQ(fs::path(sysfs.path).parent_path(), "/tmp");
	vrdma_sysfs_remove(&sysfs);
}

TEST_F(Sysfs, ADeadProcessIsCleanedUpAfter)
{
	in_a_child([] { make(); });
	ASSERT_EQ(present().size(), 1u);
	vrdma_sysfs sysfs = make();
	EXPECT_EQ(present(), std::set<std::string>{sysfs.path});
	vrdma_sysfs_remove(&sysfs);
}

TEST_F(Sysfs, ALivingProcessKeepsItsOwn)
{
	vrdma_sysfs sysfs = make();
	in_a_child([] { make(); });
	in_a_child([] { make(); });
	EXPECT_EQ(present().size(), 2u);
	EXPECT_TRUE(fs::exists(fs::path(sysfs.path) / "ports/1/gids/1"));
	vrdma_sysfs_remove(&sysfs);
}

TEST_F(Sysfs, AChildDoesNotKeepItsParents)
{
	std::array<int, 2> ready{};
	std::array<int, 2> go{};
	ASSERT_EQ(pipe(ready.data()), 0);
	ASSERT_EQ(pipe(go.data()), 0);
	in_a_child([&] {
		vrdma_sysfs sysfs = make();
		char byte = 0;
		if (fork() == 0) {
			vrdma_sysfs_abandon(&sysfs);
			close(go[1]);
			_exit(write(ready[1], &byte, 1) != 1 || read(go[0], &byte, 1) != 0);
		}
		EXPECT_EQ(read(ready[0], &byte, 1), 1);
	});
	vrdma_sysfs sysfs = make();
	EXPECT_EQ(present(), std::set<std::string>{sysfs.path});
	vrdma_sysfs_remove(&sysfs);
	for (const int fd : {ready[0], ready[1], go[0], go[1]})
		close(fd);
}

TEST_F(Sysfs, WhatIsNotOursStays)
{
	const fs::path full = parent_ / "vrdma-abcdef";
	fs::create_directories(full / "ports/1");
	std::ofstream(full / "mine") << "text";
	fs::create_directory(parent_ / "vrdma-ABCDEF");
	const fs::path longer = parent_ / "vrdma-abcdefg";
	fs::create_directories(longer);
	fs::create_directory_symlink(longer, parent_ / "vrdma-symbol");
	const auto before = present();
	vrdma_sysfs sysfs = make();
	vrdma_sysfs_remove(&sysfs);
	EXPECT_EQ(present(), before);
	EXPECT_TRUE(fs::exists(full / "mine"));
}

} // namespace
