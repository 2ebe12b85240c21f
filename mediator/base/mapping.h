// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Owns a shared mapping, of a file or of memory.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "mediator/base/errno.h"

namespace vrdma {

class Mapping {
  public:
    Mapping() = default;
    Mapping(Mapping&& other) noexcept
        : data_{std::exchange(other.data_, nullptr)}, size_{std::exchange(other.size_, 0)} {}
    Mapping& operator=(Mapping&& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(size_, other.size_);
        return *this;
    }
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;
    ~Mapping() {
        if (data_ != nullptr) {
            ::munmap(data_, size_);
        }
    }

    static Result<Mapping> map(int fd, std::uint64_t offset, std::size_t size, int protection) {
        void* data = ::mmap(nullptr, size, protection, MAP_SHARED | MAP_NORESERVE, fd,
                            static_cast<off_t>(offset));
        if (data == MAP_FAILED) {
            return fail_errno();
        }
        return Mapping{static_cast<std::byte*>(data), size};
    }

    // Zeroed memory that belongs to no file.
    static Result<Mapping> anonymous(std::size_t size) {
        void* data =
            ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (data == MAP_FAILED) {
            return fail_errno();
        }
        return Mapping{static_cast<std::byte*>(data), size};
    }

    std::byte* data() const noexcept { return data_; }
    std::size_t size() const noexcept { return size_; }

    template <typename T>
    T* as(std::size_t offset = 0) const noexcept {
        return reinterpret_cast<T*>(data_ + offset);
    }

  private:
    Mapping(std::byte* data, std::size_t size) : data_{data}, size_{size} {}

    std::byte* data_ = nullptr;
    std::size_t size_ = 0;
};

} // namespace vrdma
