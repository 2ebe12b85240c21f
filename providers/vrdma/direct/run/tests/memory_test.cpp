// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
// Tests that madvise() and mremap() work like the C library's in a program that has registered no
// memory. ../../tests/private_test.cpp tests them with registered memory.
#include <cerrno>
#include <string>

#include <dlfcn.h>
#include <sys/mman.h>

#include <gtest/gtest.h>

namespace
{

constexpr size_t page = 4096;

class Memory : public testing::Test
{
      protected:
	void SetUp() override
	{
		data = static_cast<char *>(mmap(nullptr, 8 * page, PROT_READ | PROT_WRITE,
						MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
		ASSERT_NE(data, MAP_FAILED);
		data[0] = 'x';
	}
	void TearDown() override
	{
		munmap(data, 8 * page);
	}

	char *data = nullptr;
};

TEST_F(Memory, IsLookedAfterByThisLibrary)
{
	for (const char *name : {"madvise", "mremap"}) {
		Dl_info found{};
		ASSERT_NE(dladdr(dlsym(RTLD_DEFAULT, name), &found), 0);
		EXPECT_NE(std::string(found.dli_fname).find("libvrdma-run"), std::string::npos);
	}
}

TEST_F(Memory, IsDiscarded)
{
	EXPECT_EQ(madvise(data, page, MADV_WILLNEED), 0);
	EXPECT_EQ(data[0], 'x');
	EXPECT_EQ(madvise(data, page, MADV_DONTNEED), 0);
	EXPECT_EQ(data[0], 0);
	EXPECT_EQ(madvise(data + 1, page, MADV_DONTNEED), -1);
	EXPECT_EQ(errno, EINVAL);
}

// mremap() reads its last argument only with MREMAP_FIXED.
TEST_F(Memory, IsMovedToAnAddress)
{
	EXPECT_EQ(mremap(data, page, page, MREMAP_MAYMOVE), data);
	EXPECT_EQ(mremap(data, page, 2 * page, MREMAP_MAYMOVE | MREMAP_FIXED, data + 4 * page),
		  data + 4 * page);
	EXPECT_EQ(data[4 * page], 'x');
	EXPECT_EQ(data[5 * page], 0);
	EXPECT_EQ(mremap(data, page, 2 * page, 0), MAP_FAILED);
	EXPECT_EQ(errno, EFAULT);
}

} // namespace
