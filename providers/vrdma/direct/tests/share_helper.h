// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#ifndef VRDMA_DIRECT_TESTS_SHARE_HELPER_H
#define VRDMA_DIRECT_TESTS_SHARE_HELPER_H

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "share.h"

namespace vrdma::test
{

inline constexpr size_t page = 4096;

// A mapping that its destructor unmaps.
class Memory
{
      public:
	explicit Memory(size_t length, int prot = PROT_READ | PROT_WRITE,
			int flags = MAP_PRIVATE | MAP_ANONYMOUS, int fd = -1, off_t offset = 0)
	    : data_(static_cast<char *>(mmap(nullptr, length, prot, flags, fd, offset))),
	      length_(length)
	{
	}
	~Memory()
	{
		munmap(data_, length_);
	}
	Memory(const Memory &) = delete;
	Memory &operator=(const Memory &) = delete;

	[[nodiscard]] char *data() const
	{
		return data_;
	}
	char &operator[](size_t i) const
	{
		return data_[i];
	}

      private:
	char *data_;
	size_t length_;
};

// A piece of shared memory as a device sees it: through the file.
class Piece
{
      public:
	explicit Piece(const vrdma_piece &piece)
	    : address(static_cast<char *>(piece.address)), length(piece.length),
	      offset(piece.offset), fd(dup(piece.fd))
	{
	}
	~Piece()
	{
		close(fd);
	}
	Piece(Piece &&other) noexcept
	    : address(other.address), length(other.length), offset(other.offset),
	      fd(std::exchange(other.fd, -1))
	{
	}
	Piece(const Piece &) = delete;
	Piece &operator=(const Piece &) = delete;
	Piece &operator=(Piece &&) = delete;

	[[nodiscard]] char read(size_t i) const
	{
		char byte = 0;
		EXPECT_EQ(pread(fd, &byte, 1, static_cast<off_t>(offset + i)), 1);
		return byte;
	}
	void write(size_t i, char byte) const
	{
		EXPECT_EQ(pwrite(fd, &byte, 1, static_cast<off_t>(offset + i)), 1);
	}
	[[nodiscard]] std::vector<char> content() const
	{
		std::vector<char> bytes(length);
		EXPECT_EQ(pread(fd, bytes.data(), length, static_cast<off_t>(offset)),
			  static_cast<ssize_t>(length));
		return bytes;
	}
	// Whether the file has a page at this offset.
	[[nodiscard]] bool holds(size_t i) const
	{
		const auto at = static_cast<off_t>(offset + i);
		return lseek(fd, at, SEEK_DATA) == at;
	}
	[[nodiscard]] ino_t inode() const
	{
		struct stat status = {};
		EXPECT_EQ(fstat(fd, &status), 0);
		return status.st_ino;
	}

	char *address;
	size_t length;
	uint64_t offset;
	int fd;
};

// A share that its destructor ends.
class Share
{
      public:
	Share(void *address, size_t length, bool device_writes = true)
	    : address_(address), length_(length)
	{
		error = vrdma_share(address, length, device_writes, visit, this);
	}
	~Share()
	{
		if (error == 0)
			vrdma_unshare(address_, length_);
	}
	Share(const Share &) = delete;
	Share &operator=(const Share &) = delete;

	int error;
	std::vector<Piece> pieces;

      private:
	static int visit(const vrdma_piece *piece, void *arg)
	{
		static_cast<Share *>(arg)->pieces.emplace_back(*piece);
		return 0;
	}

	void *address_;
	size_t length_;
};

// Fills memory with bytes that depend on their offset and the seed.
inline void fill(char *data, size_t length, unsigned seed)
{
	for (size_t i = 0; i < length; ++i)
		data[i] = static_cast<char>((i + seed) * 2654435761u >> 24);
}

inline bool is_filled(const char *data, size_t length, unsigned seed)
{
	std::vector<char> expected(length);
	fill(expected.data(), length, seed);
	return std::memcmp(data, expected.data(), length) == 0;
}

// Whether this process may let the kernel itself wait for a page (see hold.h).
inline bool may_hold_system_calls()
{
	const auto fd = static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC));
	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

// The number of resident pages of a mapping that is already shared.
inline size_t resident(void *address, size_t length)
{
	std::vector<unsigned char> pages(length / page);
	mincore(address, length, pages.data());
	size_t count = 0;
	for (const unsigned char there : pages)
		count += there & 1u;
	return count;
}

} // namespace vrdma::test

#endif // VRDMA_DIRECT_TESTS_SHARE_HELPER_H
