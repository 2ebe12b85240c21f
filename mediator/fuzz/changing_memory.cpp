// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/fuzz/changing_memory.h"

#include <algorithm>
#include <cstring>

namespace vrdma::fuzz {
namespace {

ChangingMemory* whose_turn = nullptr;

} // namespace

ChangingMemory::ChangingMemory(std::span<std::byte> memory) : memory_{memory} {}

ChangingMemory::~ChangingMemory() {
    whose_turn = nullptr;
}

ChangingMemory::Turn::Turn(ChangingMemory& memory) {
    memory.count_ = 0;
    whose_turn = &memory;
}

ChangingMemory::Turn::~Turn() {
    whose_turn = nullptr;
}

void ChangingMemory::plan(Input& input) {
    if (planned_ - done_ == changes_.size()) {
        return;
    }
    const auto how = input.take<std::uint8_t>();
    Change& change = changes_[planned_++ % changes_.size()];
    change.again = how % 2 != 0;
    change.reads = how / 2;
    change.place = input.take<std::uint8_t>();
    change.bytes = input.take<decltype(change.bytes)>();
}

void ChangingMemory::on_read(const std::byte* at, std::size_t size) noexcept {
    if (done_ == planned_ || at < memory_.data() || size == 0 ||
        at + size > memory_.data() + memory_.size()) {
        return;
    }
    const bool again = remember({at, at + size});
    Change& change = changes_[done_ % changes_.size()];
    if ((change.again && !again) || change.reads-- != 0) {
        return;
    }
    ++done_;
    const std::size_t place = change.place % size;
    std::byte* const to = memory_.data() + (at - memory_.data()) + place;
    const std::size_t count = std::min(change.bytes.size(), size - place);
    for (std::size_t i = 0; i < count; ++i) { // not memcpy(), which is wrapped
        to[i] = change.bytes[i];
    }
}

// Returns whether any of these bytes was read before.
bool ChangingMemory::remember(const Read& read) noexcept {
    bool again = false;
    const std::size_t known = std::min(count_, reads_.size());
    for (std::size_t i = 0; i < known && !again; ++i) {
        again = read.begin < reads_[i].end && reads_[i].begin < read.end;
    }
    reads_[count_++ % reads_.size()] = read;
    return again;
}

namespace {

void before_read(const void* at, std::size_t size) {
    if (whose_turn != nullptr) {
        whose_turn->on_read(static_cast<const std::byte*>(at), size);
    }
}

} // namespace
} // namespace vrdma::fuzz

// NOLINTBEGIN(bugprone-reserved-identifier): the compiler's and the linker's names
extern "C" {

void __sanitizer_cov_load1(const void* at) {
    vrdma::fuzz::before_read(at, 1);
}
void __sanitizer_cov_load2(const void* at) {
    vrdma::fuzz::before_read(at, 2);
}
void __sanitizer_cov_load4(const void* at) {
    vrdma::fuzz::before_read(at, 4);
}
void __sanitizer_cov_load8(const void* at) {
    vrdma::fuzz::before_read(at, 8);
}
void __sanitizer_cov_load16(const void* at) {
    vrdma::fuzz::before_read(at, 16);
}

void* __real___asan_memcpy(void* to, const void* from, std::size_t size);
void* __wrap___asan_memcpy(void* to, const void* from, std::size_t size) {
    vrdma::fuzz::before_read(from, size);
    return __real___asan_memcpy(to, from, size);
}
}
// NOLINTEND(bugprone-reserved-identifier)
