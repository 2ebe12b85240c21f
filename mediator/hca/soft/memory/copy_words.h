// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Copies many words, in the way that is fastest on this processor.
//
// glibc's memmove() uses `rep movsb` from two kilobytes on. On processors of AMD, that is half as
// fast or less if source and target lie differently in a cache line, as buffers of malloc() do. It
// also lets no later load begin, so that the misses of the next message come one after the other. A
// loop of vectors has neither property. Which one is used is measured once per process.
#pragma once

#include <cstddef>
#include <cstring>

namespace vrdma::hca::soft {

// Copies whole words between ranges that do not overlap, each word as a whole.
using CopyWords = void (*)(std::byte* to, const std::byte* from, std::size_t bytes) noexcept;

void copy_words_by_memmove(std::byte* to, const std::byte* from, std::size_t bytes) noexcept;
// nullptr if the processor has no such vectors.
CopyWords copy_words_by_vectors() noexcept;
// The faster one of both.
CopyWords fastest_copy_words() noexcept;

extern const CopyWords copy_many_words;

// The ranges may overlap: then the result is that of memmove().
inline void copy_words(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
    constexpr std::size_t many = 1024;
    const auto ahead = static_cast<std::size_t>(to - from);
    if (bytes < many || ahead < bytes || -ahead < bytes) {
        std::memmove(to, from, bytes);
    } else {
        copy_many_words(to, from, bytes);
    }
}

} // namespace vrdma::hca::soft
