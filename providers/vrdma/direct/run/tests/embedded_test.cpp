// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <regex>
#include <string>

#include <unistd.h>

#include <gtest/gtest.h>

#include "directory.h"
#include "embedded.h"

namespace
{

std::string take(char *text)
{
	const std::unique_ptr<char, decltype(&std::free)> owned{text, std::free};
	return text;
}

std::ptrdiff_t count(const std::string &text, const std::string &what)
{
	const std::regex pattern(what);
	return std::distance(std::sregex_iterator(text.begin(), text.end(), pattern),
			     std::sregex_iterator());
}

TEST(Embedded, DevicesHaveAddressesOfLoopback)
{
	EXPECT_EQ(take(vrdma_run_embedded_devices("/d", 1)), "/d/vrdma0.sock,127.0.0.1,::1");
	EXPECT_EQ(take(vrdma_run_embedded_devices("/d", 3)),
		  "/d/vrdma0.sock,127.0.0.1,::1;/d/vrdma1.sock,127.0.0.2;"
		  "/d/vrdma2.sock,127.0.0.3");
}

TEST(Embedded, TheConfigurationHasTheSame)
{
	const std::string config = take(vrdma_run_embedded_config("/d", 2));
	EXPECT_EQ(count(config, "\\[\\[vfio_user\\]\\]"), 2);
	EXPECT_EQ(count(config, "socket = \"/d/vrdma0.sock\"\naddresses = \"127.0.0.1,::1\"\n"), 1);
	EXPECT_EQ(count(config, "socket = \"/d/vrdma1.sock\"\naddresses = \"127.0.0.2\"\n"), 1);
}

// Expects 16 clients per device with four devices, and fewer per device with more devices.
TEST(Embedded, ClientsOfAllDevicesAreBounded)
{
	EXPECT_EQ(count(take(vrdma_run_embedded_config("/d", 4)), "clients = 16\n"), 4);
	EXPECT_EQ(count(take(vrdma_run_embedded_config("/d", 5)), "clients = 12\n"), 5);
	EXPECT_EQ(count(take(vrdma_run_embedded_config("/d", 8)), "clients = 8\n"), 8);
}

class Directory : public testing::Test
{
      protected:
	void TearDown() override
	{
		unsetenv("XDG_RUNTIME_DIR");
	}

	static std::string parent_with(const std::string &own)
	{
		setenv("XDG_RUNTIME_DIR", own.c_str(), 1);
		return vrdma_run_directory_parent();
	}
};

TEST_F(Directory, IsInTheUsersOwnPlace)
{
	EXPECT_STREQ(vrdma_run_directory_parent(), "/tmp");
	EXPECT_EQ(parent_with("/dev/shm"), "/dev/shm");
}

// Places that do not exist or are relative, and names that are too long or contain reserved
// characters.
TEST_F(Directory, IsElsewhereIfThatWillNotDo)
{
	char made[] = "/tmp/vrdma-run-test-XXXXXX";
	ASSERT_NE(mkdtemp(made), nullptr);
	const std::string long_name(60, 'x');
	for (const std::string name : {"a,b", "a;b", "a\"b", "a\\b", "a\nb", long_name.c_str()}) {
		const std::string place = std::string(made) + "/" + name;
		ASSERT_TRUE(std::filesystem::create_directory(place));
		EXPECT_EQ(parent_with(place), "/tmp") << name;
	}
	std::filesystem::remove_all(made);
	for (const char *place : {"", "tmp", "/nowhere"})
		EXPECT_EQ(parent_with(place), "/tmp") << place;
}

TEST_F(Directory, GoesWithItsFiles)
{
	char *made = vrdma_run_make_directory();
	ASSERT_NE(made, nullptr);
	EXPECT_EQ(std::filesystem::status(made).permissions(), std::filesystem::perms::owner_all);
	for (const char *name : {"vrdmad.conf", "vrdma0.sock"})
		std::ofstream{take(vrdma_run_path_in(made, name))};
	vrdma_run_remove_directory(made);
	EXPECT_FALSE(std::filesystem::exists(made));
	vrdma_run_remove_directory(made);
	free(made);
}

} // namespace
