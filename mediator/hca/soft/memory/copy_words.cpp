// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/memory/copy_words.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <memory>

#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace vrdma::hca::soft {

void copy_words_by_memmove(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
    std::memmove(to, from, bytes);
}

// ThreadSanitizer would take the accesses of vectors for races with those of words.
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)

namespace {

// Stores go to whole vectors, so no store crosses a cache line.
[[gnu::target("avx2")]] void copy_by_avx2(std::byte* to, const std::byte* from,
                                          std::size_t bytes) noexcept {
    constexpr std::size_t vector = sizeof(__m256i);
    constexpr std::size_t block = 4 * vector;
    const std::size_t head = -reinterpret_cast<std::uintptr_t>(to) % vector;
    std::memmove(to, from, head);
    to += head;
    from += head;
    bytes -= head;
    for (; bytes >= block; to += block, from += block, bytes -= block) {
        const auto* const loaded = reinterpret_cast<const __m256i_u*>(from);
        auto* const stored = reinterpret_cast<__m256i*>(to);
        const __m256i first = _mm256_loadu_si256(loaded);
        const __m256i second = _mm256_loadu_si256(loaded + 1);
        const __m256i third = _mm256_loadu_si256(loaded + 2);
        const __m256i fourth = _mm256_loadu_si256(loaded + 3);
        _mm256_store_si256(stored, first);
        _mm256_store_si256(stored + 1, second);
        _mm256_store_si256(stored + 2, third);
        _mm256_store_si256(stored + 3, fourth);
    }
    std::memmove(to, from, bytes);
}

} // namespace

CopyWords copy_words_by_vectors() noexcept {
    return __builtin_cpu_supports("avx2") != 0 ? &copy_by_avx2 : nullptr;
}

#else

CopyWords copy_words_by_vectors() noexcept {
    return nullptr;
}

#endif

namespace {

constexpr std::size_t measured = 8192;

using Buffer = std::array<std::byte, measured + 64>;

// The shortest time of some copies. Disturbances only ever make a copy longer.
std::chrono::nanoseconds time_copy(CopyWords copy, Buffer& to, const Buffer& from) {
    using Clock = std::chrono::steady_clock;
    constexpr int rounds = 16;
    constexpr std::size_t as_malloc = 16; // a usual place in a cache line
    auto best = std::chrono::nanoseconds::max();
    for (int i = 0; i < rounds; ++i) {
        const auto begin = Clock::now();
        copy(to.data(), from.data(), measured);
        copy(to.data(), from.data() + as_malloc, measured);
        best = std::min<std::chrono::nanoseconds>(best, Clock::now() - begin);
    }
    return best;
}

} // namespace

CopyWords fastest_copy_words() noexcept {
    const CopyWords vectors = copy_words_by_vectors();
    if (vectors == nullptr) {
        return &copy_words_by_memmove;
    }
    alignas(64) static Buffer to;
    alignas(64) static Buffer from;
    const auto by_memmove = time_copy(&copy_words_by_memmove, to, from);
    return time_copy(vectors, to, from) < by_memmove ? vectors : &copy_words_by_memmove;
}

const CopyWords copy_many_words = fastest_copy_words();

} // namespace vrdma::hca::soft
