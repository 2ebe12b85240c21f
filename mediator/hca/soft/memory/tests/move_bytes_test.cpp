// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/memory/move_bytes.h"

#include <gtest/gtest.h>

#include <array>
#include <thread>
#include <vector>

#include "mediator/base/sanitized.h"

namespace vrdma::hca::soft {
namespace {

// Who sees the bytes while they are moved makes no difference for those that arrive.
class MoveBytes : public testing::TestWithParam<Seen> {};
INSTANTIATE_TEST_SUITE_P(Seen, MoveBytes, testing::Values(Seen::both, Seen::source, Seen::target));

// Copies every length up to some words, and around the size of a piece; from and to every offset in
// a word; expects these bytes to arrive, and none beside them to change.
TEST_P(MoveBytes, any_length_and_alignment) {
    constexpr std::byte untouched{0xee};
    alignas(8) std::array<std::byte, 224> from;
    for (std::size_t i = 0; i < from.size(); ++i) {
        from[i] = std::byte(i);
    }
    for (std::size_t length = 1; length <= 200; length += length == 40 ? 16 : 1) {
        for (std::size_t offset = 0; offset < 64; ++offset) {
            const std::size_t source = offset / 8;
            const std::size_t target = offset % 8;
            alignas(8) std::array<std::byte, 224> to;
            to.fill(untouched);
            move_bytes(std::span{to}.subspan(target, length), from.data() + source, GetParam());
            for (std::size_t i = 0; i < to.size(); ++i) {
                const bool inside = i >= target && i < target + length;
                ASSERT_EQ(to[i], inside ? from[i - target + source] : untouched)
                    << length << " bytes from " << source << " to " << target << ", byte " << i;
            }
        }
    }
}

// Copies ranges of many lengths and alignments in each way that this processor has; expects these
// words to arrive, and none beside them to change.
TEST(CopyWords, any_length_and_alignment) {
    constexpr std::byte untouched{0xee};
    constexpr std::size_t room = 8192;
    std::vector<std::byte> from(room);
    for (std::size_t i = 0; i < room; ++i) {
        from[i] = std::byte(i * 7 + i / 256);
    }
    for (const CopyWords copy :
         {&copy_words_by_memmove, copy_words_by_vectors(), fastest_copy_words()}) {
        for (std::size_t bytes = 1024; copy != nullptr && bytes <= 4096; bytes += 248) {
            for (std::size_t place = 0; place < 64; ++place) {
                const std::size_t source = place % 8 * sizeof(Word);
                const std::size_t target = place / 8 * sizeof(Word) + sizeof(Word);
                std::vector<std::byte> to(room, untouched);
                copy(to.data() + target, from.data() + source, bytes);
                EXPECT_TRUE(std::equal(from.data() + source, from.data() + source + bytes,
                                       to.data() + target))
                    << bytes << " bytes from " << source << " to " << target;
                EXPECT_EQ(to[target - 1], untouched);
                EXPECT_EQ(to[target + bytes], untouched);
            }
        }
    }
}

// Copies ranges that overlap in either direction; expects the result of memmove().
TEST(CopyWords, may_overlap) {
    constexpr std::size_t bytes = 4096;
    for (const std::size_t apart : {8U, 64U, 4088U}) {
        for (const bool forward : {false, true}) {
            std::vector<std::byte> copied(2 * bytes);
            for (std::size_t i = 0; i < copied.size(); ++i) {
                copied[i] = std::byte(i * 7 + i / 256);
            }
            std::vector<std::byte> expected = copied;
            const std::size_t to = forward ? apart : 0;
            const std::size_t from = apart - to;
            std::memmove(expected.data() + to, expected.data() + from, bytes);
            copy_words(copied.data() + to, copied.data() + from, bytes);
            EXPECT_EQ(copied, expected) << from << " to " << to;
        }
    }
}

template <typename Piece>
std::byte poll_piece(const std::byte* end) {
    const auto* last = reinterpret_cast<const Piece*>(end - sizeof(Piece));
    return std::byte(load_acquire(*last) >> (8 * (sizeof(Piece) - 1)));
}

// The last byte, loaded in the same size as it is stored, because the sanitizer only pairs accesses
// of equal size.
std::byte poll_last(const std::vector<std::byte>& bytes) {
    const std::byte* end = bytes.data() + bytes.size();
    switch (bytes.size() % sizeof(Word)) {
        case 0:
            return poll_piece<std::uint64_t>(end);
        case 4:
            return poll_piece<std::uint32_t>(end);
        case 2:
        case 6:
            return poll_piece<std::uint16_t>(end);
        default:
            return poll_piece<std::uint8_t>(end);
    }
}

// Writes messages while a reader polls only their last byte; expects all other bytes to be there
// when it arrives.
TEST_P(MoveBytes, last_byte_is_last) {
    constexpr unsigned rounds = 50;
    for (const std::size_t length : {2U, 4U, 7U, 8U, 13U, 64U, 4093U, 65536U}) {
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
            move_bytes(to, from.data(), GetParam());
            while (seen.load() != round) {
                std::this_thread::yield();
            }
        }
        reader.join();
    }
}

// The offset of an aligned word in a message, and the message's offset in a word on either side.
struct Layout {
    std::size_t before;
    std::size_t source;
    std::size_t target;
};
constexpr Layout layouts[] = {{0, 0, 0},  {8, 0, 0},  {4, 4, 4},    {5, 3, 3},
                              {6, 2, 2},  {40, 0, 0}, {0, 0, 4},    {8, 0, 1},
                              {13, 3, 6}, {40, 0, 2}, {1000, 0, 2}, {6, 7, 2}};

template <typename T>
struct Moving {
    static constexpr std::size_t words = 130;
    std::array<Word, words> from_words{};
    std::array<Word, words> to_words{};

    explicit Moving(const Layout& layout)
        : from{reinterpret_cast<std::byte*>(from_words.data()) + layout.source},
          to{reinterpret_cast<std::byte*>(to_words.data()) + layout.target,
             layout.before + sizeof(T)},
          source{from + layout.before},
          target{to.data() + layout.before} {}

    std::byte* from;
    std::span<std::byte> to;
    std::byte* source;
    std::byte* target;
};

// Calls `look` while a thread calls `other`, often enough that the two overlap. A sanitizer's
// build, which is twenty times as slow, finds what it looks for the first time.
template <typename Other, typename Look>
void look_beside(Other&& other, Look&& look) {
    constexpr int looks = sanitized ? 5'000 : 100'000;
    constexpr unsigned enough = looks / 3;
    std::atomic<unsigned> rounds{0};
    std::atomic<bool> stop{false};
    std::thread thread{[&] {
        for (unsigned round = 0; !stop.load(std::memory_order_relaxed); ++round) {
            other(round);
            rounds.store(round, std::memory_order_relaxed);
        }
    }};
    for (int i = 0; i < looks || rounds.load(std::memory_order_relaxed) < enough; ++i) {
        look();
    }
    stop = true;
    thread.join();
}

template <typename T>
constexpr bool whole(T value) {
    return value == 0 || value == static_cast<T>(~T{0});
}

// Moves messages with a word of zeros or ones while another thread reads it; expects no read to see
// both.
template <typename T>
void expect_written_whole(const Layout& layout, Seen seen) {
    Moving<T> moving{layout};
    int halves = 0;
    const auto write = [&](unsigned round) {
        moving.from_words.fill(round % 2 == 0 ? 0 : ~Word{0});
        move_bytes(moving.to, moving.from, seen);
    };
    look_beside(
        write, [&] { halves += !whole(load_relaxed(*reinterpret_cast<const T*>(moving.target))); });
    EXPECT_EQ(halves, 0) << sizeof(T) << " bytes behind " << layout.before << " from "
                         << layout.source << " to " << layout.target;
}

// Stores zeros or ones into a word while it is moved; expects no copy to have both.
template <typename T>
void expect_read_whole(const Layout& layout, Seen seen) {
    Moving<T> moving{layout};
    int halves = 0;
    const auto update = [&](unsigned round) {
        store_relaxed(*reinterpret_cast<T*>(moving.source),
                      static_cast<T>(round % 2 == 0 ? T{0} : ~T{0}));
    };
    look_beside(update, [&] {
        move_bytes(moving.to, moving.from, seen);
        T copy;
        std::memcpy(&copy, moving.target, sizeof(copy));
        halves += !whole(copy);
    });
    EXPECT_EQ(halves, 0) << sizeof(T) << " bytes behind " << layout.before << " from "
                         << layout.source << " to " << layout.target;
}

template <typename T>
bool is_aligned(std::size_t place) {
    return place % sizeof(T) == 0;
}

template <typename T>
class MoveWords : public testing::Test {};
using Words = testing::Types<std::uint16_t, std::uint32_t, std::uint64_t>;
TYPED_TEST_SUITE(MoveWords, Words);

TYPED_TEST(MoveWords, are_written_whole) {
    for (const Layout& layout : layouts) {
        if (is_aligned<TypeParam>(layout.target + layout.before)) {
            expect_written_whole<TypeParam>(layout, Seen::both);
            expect_written_whole<TypeParam>(layout, Seen::target);
        }
    }
}

TYPED_TEST(MoveWords, are_read_whole) {
    for (const Layout& layout : layouts) {
        if (is_aligned<TypeParam>(layout.source + layout.before)) {
            expect_read_whole<TypeParam>(layout, Seen::both);
            expect_read_whole<TypeParam>(layout, Seen::source);
        }
    }
}

} // namespace
} // namespace vrdma::hca::soft
