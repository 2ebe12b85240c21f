// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// An empty range of the address space for a window. It is aligned to the largest page, so every
// page that is mapped there lies wholly inside. On either side it has a page with another
// protection, so the kernel never merges it with a neighbouring mapping. Mapping over the middle of
// a larger mapping would fail once the process has all the mappings that it may have.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "mediator/base/errno.h"

namespace vrdma::vfio_user {

class Reservation {
  public:
    static Result<Reservation> make(std::uint64_t size) {
        void* const data = ::mmap(nullptr, size + largest_page + 2 * margin, PROT_NONE,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (data == MAP_FAILED) {
            return fail_errno();
        }
        auto* const start = static_cast<std::byte*>(data);
        const auto place = reinterpret_cast<std::uintptr_t>(start) + margin;
        std::byte* const base =
            start + margin + (largest_page - place % largest_page) % largest_page;
        std::byte* const end = start + size + largest_page + 2 * margin;
        if (base - margin != start) {
            ::munmap(start, static_cast<std::size_t>(base - margin - start));
        }
        if (base + size + margin != end) {
            ::munmap(base + size + margin, static_cast<std::size_t>(end - (base + size + margin)));
        }
        ::mprotect(base - margin, margin, PROT_READ);
        ::mprotect(base + size, margin, PROT_READ);
        return Reservation{base, size};
    }

    Reservation(Reservation&& other) noexcept
        : base_{std::exchange(other.base_, nullptr)}, size_{other.size_} {}
    Reservation& operator=(Reservation&&) = delete;
    Reservation(const Reservation&) = delete;
    Reservation& operator=(const Reservation&) = delete;
    ~Reservation() {
        if (base_ != nullptr) {
            ::munmap(base_ - margin, size_ + 2 * margin);
        }
    }

    std::byte* base() const noexcept { return base_; }

  private:
    static constexpr std::uint64_t largest_page = 1ull << 30;
    static constexpr std::uint64_t margin = 1ull << 12;

    Reservation(std::byte* base, std::uint64_t size) : base_{base}, size_{size} {}

    std::byte* base_;
    std::uint64_t size_;
};

} // namespace vrdma::vfio_user
