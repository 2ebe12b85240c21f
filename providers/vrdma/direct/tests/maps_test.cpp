// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "maps.h"

#include <cstdint>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace
{

constexpr size_t maps_page = 4096;

// Tests run with the ioctl, if the kernel has it, and by reading the text.
class Maps : public ::testing::TestWithParam<bool>
{
      protected:
	Maps()
	{
		EXPECT_EQ(vrdma_maps_open(&maps_), 0);
		if (!GetParam())
			maps_.has_query = false;
	}
	~Maps() override
	{
		vrdma_maps_close(&maps_);
	}
	Maps(const Maps &) = delete;
	Maps &operator=(const Maps &) = delete;

	vrdma_maps maps_{};
};

TEST_P(Maps, TellsWhatIsMapped)
{
	const int fd = memfd_create("some name", 0);
	ASSERT_EQ(ftruncate(fd, 4 * maps_page), 0);
	struct stat status = {};
	ASSERT_EQ(fstat(fd, &status), 0);
	void *const reserved = mmap(nullptr, 4 * maps_page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS,
				    -1, 0);
	const auto start = reinterpret_cast<uintptr_t>(reserved);
	ASSERT_EQ(mmap(reinterpret_cast<void *>(start + maps_page), 2 * maps_page, PROT_READ,
		       MAP_SHARED | MAP_FIXED, fd, maps_page),
		  reinterpret_cast<void *>(start + maps_page));

	vrdma_mapping mapping{};
	ASSERT_TRUE(vrdma_maps_find(&maps_, start, &mapping));
	EXPECT_EQ(mapping.end, start + maps_page);
	EXPECT_EQ(mapping.prot, PROT_NONE);
	EXPECT_FALSE(mapping.shared);
	EXPECT_EQ(mapping.inode, 0u);

	// Finds an address inside twice: both times the same mapping.
	for (int i = 0; i < 2; ++i) {
		ASSERT_TRUE(vrdma_maps_find(&maps_, start + (1 + i) * maps_page, &mapping));
		EXPECT_EQ(mapping.start, start + maps_page);
		EXPECT_EQ(mapping.end, start + 3 * maps_page);
		EXPECT_EQ(mapping.offset, maps_page);
		EXPECT_EQ(mapping.prot, PROT_READ);
		EXPECT_TRUE(mapping.shared);
		EXPECT_EQ(mapping.inode, status.st_ino);
		EXPECT_EQ(mapping.device, status.st_dev);
		EXPECT_STREQ(mapping.name, "/memfd:some name (deleted)");
	}
	munmap(reserved, 4 * maps_page);
	close(fd);
}

TEST_P(Maps, SkipsWhatIsNotMapped)
{
	void *const memory = mmap(nullptr, 3 * maps_page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS,
				  -1, 0);
	const auto start = reinterpret_cast<uintptr_t>(memory);
	munmap(reinterpret_cast<void *>(start + maps_page), maps_page);
	vrdma_mapping mapping{};
	ASSERT_TRUE(vrdma_maps_find(&maps_, start + maps_page, &mapping));
	EXPECT_EQ(mapping.start, start + 2 * maps_page);
	munmap(memory, 3 * maps_page);
}

TEST_P(Maps, EndsAfterTheLast)
{
	vrdma_mapping mapping{};
	int count = 0;
	uintptr_t end = 0;
	while (vrdma_maps_find(&maps_, end, &mapping)) {
		ASSERT_GT(mapping.end, end);
		end = mapping.end;
		++count;
	}
	EXPECT_GT(count, 10);
	EXPECT_FALSE(vrdma_maps_find(&maps_, UINTPTR_MAX, &mapping));
}

INSTANTIATE_TEST_SUITE_P(, Maps, ::testing::Bool(), [](const auto &info) {
	return info.param ? "AsTheKernelCan" : "FromText";
});

} // namespace
