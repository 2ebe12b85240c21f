// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include <cerrno>
#include <set>
#include <string>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "given_devices.h"

namespace
{

using Listings = GivenDevices;
using Names = std::set<std::string>;

const Names only_lo{".", "..", "lo"};

template <typename Read> Names names(DIR *dir, Read read)
{
	Names found;

	EXPECT_NE(dir, nullptr);
	while (const auto *entry = dir ? read(dir) : nullptr)
		found.insert(static_cast<const char *>(entry->d_name));
	return found;
}

template <typename Read> Names list(const std::string &path, Read read)
{
	DIR *dir = opendir(path.c_str());
	Names found = names(dir, read);

	EXPECT_EQ(dir ? closedir(dir) : 0, 0);
	return found;
}

TEST_F(Listings, TellOfADevicesInterfaces)
{
	for (const char *slashes : {"", "/", "//"})
		for (const int device : {0, 3}) {
			EXPECT_EQ(list(directory(device) + slashes, readdir), only_lo);
			EXPECT_EQ(list(directory(device) + slashes, readdir64), only_lo);
		}
}

TEST_F(Listings, CallInterfacesDirectories)
{
	DIR *dir = opendir(directory(0).c_str());

	ASSERT_NE(dir, nullptr);
	while (const dirent *entry = readdir(dir))
		EXPECT_EQ(entry->d_type, DT_DIR) << static_cast<const char *>(entry->d_name);
	closedir(dir);
}

TEST_F(Listings, AreNotThereWithoutAnInterface)
{
	for (const int device : {1, 2, 4}) {
		EXPECT_EQ(opendir(directory(device).c_str()), nullptr) << device;
		EXPECT_EQ(errno, ENOENT);
	}
}

/* Also while a device's directory is open, and after its DIR was freed and may be reused. */
TEST_F(Listings, LeaveOtherDirectoriesAlone)
{
	const std::string parent = testing::TempDir() + "listings_test_XXXXXX";
	std::vector<char> path(parent.c_str(), parent.c_str() + parent.size() + 1);

	ASSERT_NE(mkdtemp(path.data()), nullptr);
	const std::string file = std::string(path.data()) + "/file";
	close(open(file.c_str(), O_CREAT | O_WRONLY, 0600));
	DIR *ours = opendir(directory(0).c_str());
	EXPECT_EQ(list(path.data(), readdir), (Names{".", "..", "file"}));
	EXPECT_EQ(names(ours, readdir), only_lo);
	closedir(ours);
	EXPECT_EQ(list(path.data(), readdir64), (Names{".", "..", "file"}));
	unlink(file.c_str());
	rmdir(path.data());
}

/* Expects an interface's own directory to be listed unchanged. */
TEST_F(Listings, TellOfAllThatAnInterfaceHas)
{
	EXPECT_EQ(list(directory(0) + "/lo", readdir), list("/sys/class/net/lo", readdir));
	EXPECT_EQ(list(directory(0) + "/lo", readdir).count("address"), 1U);
}

TEST_F(Listings, AreBounded)
{
	std::vector<DIR *> open;

	for (DIR *dir = opendir(directory(0).c_str()); dir && open.size() < 1000;
	     dir = opendir(directory(0).c_str()))
		open.push_back(dir);
	EXPECT_EQ(errno, EMFILE);
	EXPECT_EQ(open.size(), 16U);
	for (DIR *dir : open) {
		EXPECT_EQ(names(dir, readdir), only_lo);
		closedir(dir);
	}
	EXPECT_EQ(list(directory(0), readdir), only_lo);
}

} // namespace
