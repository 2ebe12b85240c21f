// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// What a client has given to its server: maps, and the files behind them.
#include "given.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <string>

#include <gtest/gtest.h>

namespace vrdma::test
{
namespace
{

class Given : public testing::Test
{
      protected:
	~Given() override
	{
		vrdma_given_free(&given);
	}

	void add(uint64_t iova, int fd)
	{
		const vrdma_dma dma{iova, 0x1000, nullptr, fd, 2 * iova};
		vrdma_given_add(&given, &dma);
	}

	const vrdma_given_map *find(uint64_t iova) const
	{
		const vrdma_given_map *map = given.maps;
		while (map && map->iova != iova)
			map = map->next;
		return map;
	}

	static bool is_open(int fd)
	{
		return fcntl(fd, F_GETFD) >= 0;
	}

	vrdma_given given{};
};

// Add two maps of a file and one of another, and close the files; expect each map with its range,
// and one descriptor for each file, which is closed with the file's last map.
TEST_F(Given, AFileIsOpenOnceForAllItsMaps)
{
	const int one = memfd_create("one", MFD_CLOEXEC), two = memfd_create("two", MFD_CLOEXEC);
	add(0x1000, one);
	add(0x2000, one);
	add(0x3000, two);
	close(one);
	close(two);
	ASSERT_TRUE(find(0x1000) && find(0x2000) && find(0x3000));
	const int kept = vrdma_given_fd(find(0x1000));
	EXPECT_EQ(find(0x1000)->offset, 0x2000u);
	EXPECT_EQ(find(0x1000)->length, 0x1000u);
	EXPECT_EQ(vrdma_given_fd(find(0x2000)), kept);
	EXPECT_NE(vrdma_given_fd(find(0x3000)), kept);
	vrdma_given_remove(&given, 0x1000);
	EXPECT_FALSE(find(0x1000));
	EXPECT_TRUE(is_open(kept));
	vrdma_given_remove(&given, 0x2000);
	EXPECT_FALSE(is_open(kept));
	vrdma_given_remove(&given, 0x2000);
	EXPECT_TRUE(find(0x3000));
	EXPECT_FALSE(given.incomplete);
}

// Add maps of one file that is open for reading, and for both; expect a descriptor for each.
TEST_F(Given, AFileIsOpenForWhatItWas)
{
	const int both = memfd_create("both", MFD_CLOEXEC);
	const int reading = open(("/proc/self/fd/" + std::to_string(both)).c_str(),
				 O_RDONLY | O_CLOEXEC);
	add(0x1000, both);
	add(0x2000, reading);
	EXPECT_EQ(fcntl(vrdma_given_fd(find(0x1000)), F_GETFL) & O_ACCMODE, O_RDWR);
	EXPECT_EQ(fcntl(vrdma_given_fd(find(0x2000)), F_GETFL) & O_ACCMODE, O_RDONLY);
	close(both);
	close(reading);
}

// Add a map when there is no descriptor left for its file; expect the set to say so. UBSan needs a
// descriptor for a look at the type of an object, so no member is called meanwhile.
TEST_F(Given, WithoutADescriptorItIsIncomplete)
{
	const int file = memfd_create("file", MFD_CLOEXEC);
	rlimit limit{};
	ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
	const rlimit none{0, limit.rlim_max};
	vrdma_given &maps = given;
	const vrdma_dma dma{0x1000, 0x1000, nullptr, file, 0};
	ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
	vrdma_given_add(&maps, &dma);
	ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
	EXPECT_TRUE(given.incomplete);
	EXPECT_FALSE(given.maps);
	close(file);
}

} // namespace
} // namespace vrdma::test
