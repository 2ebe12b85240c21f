// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#ifndef VRDMA_DIRECT_TESTS_SHARE_HELPER_H
#define VRDMA_DIRECT_TESTS_SHARE_HELPER_H

#include <cstddef>
#include <cstdint>
#include <vector>

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "share.h"

namespace vrdma::test {

inline constexpr size_t page = 4096;

// A mapping, gone at the end.
class Memory {
  public:
    explicit Memory(size_t length, int prot = PROT_READ | PROT_WRITE,
                    int flags = MAP_PRIVATE | MAP_ANONYMOUS, int fd = -1, off_t offset = 0)
        : data_(static_cast<char *>(mmap(nullptr, length, prot, flags, fd, offset))),
          length_(length)
    {
    }
    ~Memory() { munmap(data_, length_); }
    Memory(const Memory &) = delete;
    Memory &operator=(const Memory &) = delete;

    [[nodiscard]] char *data() const { return data_; }
    char &operator[](size_t i) const { return data_[i]; }

  private:
    char *data_;
    size_t length_;
};

// What a visit was told, as a device sees it: a second mapping of the file.
struct Seen {
    void *address;
    size_t length;
    uint64_t offset;
    ino_t inode;
    char *device;
};

// One share, ended at the end.
class Share {
  public:
    Share(void *address, size_t length, bool device_writes = true)
        : address_(address), length_(length)
    {
        error = vrdma_share(address, length, device_writes, visit, this);
    }
    ~Share()
    {
        for (const Seen &piece : pieces)
            munmap(piece.device, piece.length);
        if (error == 0)
            vrdma_unshare(address_, length_);
    }
    Share(const Share &) = delete;
    Share &operator=(const Share &) = delete;

    int error;
    std::vector<Seen> pieces;

  private:
    static int visit(const vrdma_piece *piece, void *arg)
    {
        struct stat status = {};
        fstat(piece->fd, &status);
        void *const device =
            mmap(nullptr, piece->length, PROT_READ, MAP_SHARED, piece->fd, piece->offset);
        // Not where it is read-only.
        mprotect(device, piece->length, PROT_READ | PROT_WRITE);
        static_cast<Share *>(arg)->pieces.push_back({piece->address, piece->length, piece->offset,
                                                     status.st_ino, static_cast<char *>(device)});
        return 0;
    }

    void *address_;
    size_t length_;
};

// The pages that are there, of a mapping that is shared already.
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
