// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/copy.h"

#include <gtest/gtest.h>

#include <array>
#include <thread>
#include <vector>

namespace vrdma::hca::soft {
namespace {

// Copies every length up to some words to and from every place in a word; expects these bytes to
// arrive, and none beside them to change.
TEST(Copy, any_length_and_alignment) {
    constexpr std::byte untouched{0xee};
    alignas(8) std::array<std::byte, 64> from;
    for (std::size_t i = 0; i < from.size(); ++i) {
        from[i] = std::byte(i);
    }
    for (std::size_t length = 1; length <= 40; ++length) {
        for (std::size_t offset = 0; offset < 64; ++offset) {
            const std::size_t source = offset / 8;
            const std::size_t target = offset % 8;
            alignas(8) std::array<std::byte, 64> to;
            to.fill(untouched);
            move_bytes(std::span{to}.subspan(target, length), from.data() + source);
            for (std::size_t i = 0; i < to.size(); ++i) {
                const bool inside = i >= target && i < target + length;
                ASSERT_EQ(to[i], inside ? from[i - target + source] : untouched)
                    << length << " bytes from " << source << " to " << target << ", byte " << i;
            }
        }
    }
}

// The last byte, loaded with the word that it is stored with: the sanitizer pairs accesses of one
// size only.
std::byte poll_last(const std::vector<std::byte>& bytes) {
    using Word = std::uint64_t;
    if (bytes.size() % sizeof(Word) != 0) {
        return load_acquire(bytes.back());
    }
    const auto* last = reinterpret_cast<const Word*>(bytes.data() + bytes.size() - sizeof(Word));
    return std::byte(load_acquire(*last) >> 56);
}

// Writes messages of which a reader polls the last byte alone; expects it to find all others there.
TEST(Copy, last_byte_is_last) {
    constexpr unsigned rounds = 50;
    for (const std::size_t length : {2U, 7U, 8U, 13U, 64U, 4093U, 65536U}) {
        std::vector<std::byte> to(length, std::byte{0});
        std::atomic<unsigned> seen{0};
        std::thread reader{[&] {
            for (unsigned round = 1; round <= rounds; ++round) {
                while (poll_last(to) != std::byte(round)) {
                    std::this_thread::yield();
                }
                const auto complete = std::count(to.begin(), to.end(), std::byte(round));
                EXPECT_EQ(static_cast<std::size_t>(complete), length);
                seen.store(round);
            }
        }};
        std::vector<std::byte> from(length);
        for (unsigned round = 1; round <= rounds; ++round) {
            std::fill(from.begin(), from.end(), std::byte(round));
            move_bytes(to, from.data());
            while (seen.load() != round) {
                std::this_thread::yield();
            }
        }
        reader.join();
    }
}

} // namespace
} // namespace vrdma::hca::soft
