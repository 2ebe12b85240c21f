// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Memory of the in-process guest: pages of its arena, contiguous or scattered.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstring>
#include <span>
#include <vector>

#include "mediator/hca/translation.h"
#include "mediator/memory/guest_memory.h"

namespace vrdma::test {

class Buffer {
  public:
    Buffer() = default;
    Buffer(GuestMemory& memory, hca::Translation pages)
        : memory_{&memory}, pages_{std::move(pages)} {}

    const hca::Translation& pages() const { return pages_; }
    std::uint64_t size() const { return pages_.length; }

    // The object at offset, which lies in one page.
    template <typename T = std::byte>
    T* at(std::uint64_t offset) const {
        const std::uint64_t place = pages_.first_offset + offset;
        const std::uint64_t block = std::uint64_t{1} << pages_.block_shift;
        const Iova iova = pages_.blocks[place / block] + place % block;
        return reinterpret_cast<T*>(memory_->at(iova, sizeof(T)));
    }

    void write(std::uint64_t offset, std::span<const std::byte> bytes) const {
        while (!bytes.empty()) {
            const std::size_t piece = piece_at(offset, bytes.size());
            std::memcpy(at(offset), bytes.data(), piece);
            bytes = bytes.subspan(piece);
            offset += piece;
        }
    }
    std::vector<std::byte> read(std::uint64_t offset, std::uint64_t length) const {
        std::vector<std::byte> bytes(length);
        for (std::size_t done = 0; done < length;) {
            const std::size_t piece = piece_at(offset + done, length - done);
            std::memcpy(&bytes[done], at(offset + done), piece);
            done += piece;
        }
        return bytes;
    }
    // The bytes depend on their place and on the seed.
    void fill(std::uint8_t seed) const { write(0, pattern(seed, size())); }

    static std::vector<std::byte> pattern(std::uint8_t seed, std::uint64_t length) {
        std::vector<std::byte> bytes(length);
        for (std::uint64_t i = 0; i < length; ++i) {
            bytes[i] = static_cast<std::byte>(i * 31 + i / 251 + seed);
        }
        return bytes;
    }

  private:
    // The number of wanted bytes that lie in the block at offset.
    std::size_t piece_at(std::uint64_t offset, std::uint64_t wanted) const {
        const std::uint64_t block = std::uint64_t{1} << pages_.block_shift;
        return std::min(wanted, block - (pages_.first_offset + offset) % block);
    }

    GuestMemory* memory_ = nullptr;
    hca::Translation pages_;
};

// Allocates the pages of a guest's memory. Pages are not freed.
class PageAllocator {
  public:
    explicit PageAllocator(GuestMemory& memory) : memory_{memory} {}

    // In scattered buffers no page follows its predecessor.
    Buffer allocate(std::uint64_t size, bool scattered = true) {
        const std::uint64_t count = (size + VRDMA_PAGE_SIZE - 1) / VRDMA_PAGE_SIZE;
        assert((next_ + count) * VRDMA_PAGE_SIZE <= memory_.size());
        hca::Translation pages;
        pages.length = size;
        for (std::uint64_t i = 0; i < count; ++i) {
            const std::uint64_t page = next_ + (scattered ? count - 1 - i : i);
            pages.blocks.push_back(Iova{page * VRDMA_PAGE_SIZE});
        }
        next_ += count;
        return {memory_, std::move(pages)};
    }

  private:
    GuestMemory& memory_;
    std::uint64_t next_ = 1; // page 0 stays unused, so that address 0 is never valid
};

} // namespace vrdma::test
