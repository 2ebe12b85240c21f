// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/tests/guest/heap.h"

#include <malloc.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::size_t> in_use{0};
std::atomic<std::size_t> too_much{SIZE_MAX};

void* allocate(std::size_t size, std::size_t alignment) {
    void* const memory = size >= too_much ? nullptr : std::aligned_alloc(alignment, size);
    if (memory == nullptr) {
        throw std::bad_alloc{};
    }
    in_use += ::malloc_usable_size(memory);
    return memory;
}

void free_counted(void* memory) noexcept {
    if (memory != nullptr) {
        in_use -= ::malloc_usable_size(memory);
    }
    std::free(memory);
}

std::size_t rounded(std::size_t size, std::size_t alignment) {
    return (size + alignment - 1) / alignment * alignment;
}

} // namespace

void* operator new(std::size_t size) {
    return allocate(rounded(size == 0 ? 1 : size, alignof(std::max_align_t)),
                    alignof(std::max_align_t));
}
// A sanitizer's runtime has one of its own, whose memory only its operator delete may free.
void* operator new(std::size_t size, const std::nothrow_t& /*tag*/) noexcept {
    try {
        return operator new(size);
    } catch (const std::bad_alloc&) {
        return nullptr;
    }
}
void* operator new(std::size_t size, std::align_val_t alignment) {
    const auto boundary = static_cast<std::size_t>(alignment);
    return allocate(rounded(size == 0 ? 1 : size, boundary), boundary);
}
void operator delete(void* memory) noexcept {
    free_counted(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
    free_counted(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
    free_counted(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
    free_counted(memory);
}

namespace vrdma::test {

std::size_t heap_in_use() noexcept {
    return in_use;
}

NoMemory::NoMemory(std::size_t bytes) noexcept {
    too_much = bytes;
}

NoMemory::~NoMemory() {
    too_much = SIZE_MAX;
}

} // namespace vrdma::test
