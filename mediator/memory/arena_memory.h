// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Guest memory that is a plain buffer of this process: every page is there and stays.
#pragma once

#include <sys/mman.h>

#include <memory>

#include "mediator/base/errno.h"
#include "mediator/memory/guest_memory.h"
#include "mediator/memory/second_mapping.h"

namespace vrdma {

class ArenaMemory : public GuestMemory {
  public:
    static Result<std::unique_ptr<ArenaMemory>> create(std::uint64_t size) {
        void* base = ::mmap(nullptr, size, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (base == MAP_FAILED) {
            return fail_errno();
        }
        return std::unique_ptr<ArenaMemory>{new ArenaMemory{static_cast<std::byte*>(base), size}};
    }

    ArenaMemory(const ArenaMemory&) = delete;
    ArenaMemory& operator=(const ArenaMemory&) = delete;
    ~ArenaMemory() override { ::munmap(at(Iova{0}, 0), size()); }

    void release(Iova, std::uint64_t) noexcept override {}
    Result<std::uint64_t> map_again(Iova iova, std::uint64_t length, std::byte* place) override {
        return map_second_time(at(iova, length), length, place);
    }

  private:
    ArenaMemory(std::byte* base, std::uint64_t size) : GuestMemory{base, size, &no_faults} {}

    static constexpr std::uint64_t no_faults = 0;
};

} // namespace vrdma
