// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Tests the search for a device. Tests of a device that exists need a kernel with VFIO: see
// pytests/test_host_process.py.
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "bus.h"

namespace vrdma::test
{
namespace
{

class Vfio : public testing::Test
{
      protected:
	Vfio()
	{
		EXPECT_NE(mkdtemp(path.data()), nullptr);
	}
	~Vfio() override
	{
		std::filesystem::remove_all(path);
	}
	Vfio(const Vfio &) = delete;
	Vfio &operator=(const Vfio &) = delete;

	static int error_of(const std::string &directory)
	{
		errno = 0;
		EXPECT_EQ(vrdma_vfio_open(directory.c_str()), nullptr);
		return errno;
	}

	std::string path = testing::TempDir() + "vfio-XXXXXX";
};

TEST_F(Vfio, NoDirectory)
{
	EXPECT_EQ(error_of(path + "/missing"), ENOENT);
}

TEST_F(Vfio, ADirectoryOfNoDevice)
{
	EXPECT_EQ(error_of(path), ENODEV);
}

// The device exists, but VFIO does not have it: its group has no file.
TEST_F(Vfio, ADeviceThatVfioHasNot)
{
	std::filesystem::create_directory(path + "/no-such-group");
	std::filesystem::create_symlink(path + "/no-such-group", path + "/iommu_group");
	EXPECT_EQ(error_of(path), ENOENT);
}

} // namespace
} // namespace vrdma::test
