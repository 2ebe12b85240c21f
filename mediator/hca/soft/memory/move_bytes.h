// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Moves bytes as programs expect of an HCA, although IBA 9.5 promises less:
// - A naturally aligned word of up to eight bytes is read and written as a whole. A program may
//   poll a word that a WRITE updates, or update a word that others READ. Neither side sees parts of
//   two values.
// - The last bytes are stored last. Programs poll the last byte of a WRITE and assume that all
//   bytes before it are written. The last bytes share an aligned word, because others may see
//   halves of a store across the end of a cache line.
//
// Where nobody else sees one side, as with a frame's bytes, only the other side has such words.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "mediator/hca/soft/memory/copy_words.h"
#include "mediator/memory/shared_words.h"

namespace vrdma::hca::soft {

using Word = std::uint64_t;

// The sides of a copy that others may see while it is made.
enum class Seen : std::uint8_t { both, source, target };

inline std::size_t place_in_word(const std::byte* at) noexcept {
    return reinterpret_cast<std::uintptr_t>(at) % sizeof(Word);
}

// The size of the largest naturally aligned piece at an address; at most `size`.
inline std::size_t aligned_piece(const std::byte* at, std::size_t size) noexcept {
    const std::size_t place = place_in_word(at) | sizeof(Word);
    return std::min(place & -place, std::bit_floor(size));
}

template <typename Piece>
Word load_piece(const std::byte* from) noexcept {
    return load_relaxed(*reinterpret_cast<const Piece*>(from));
}

// Loads an aligned piece.
inline Word load_piece(const std::byte* from, std::size_t size) noexcept {
    switch (size) {
        case 1:
            return load_piece<std::uint8_t>(from);
        case 2:
            return load_piece<std::uint16_t>(from);
        case 4:
            return load_piece<std::uint32_t>(from);
        default:
            return load_piece<std::uint64_t>(from);
    }
}

template <typename Piece>
void store_piece(std::byte* to, Word value) noexcept {
    store_release(*reinterpret_cast<Piece*>(to), static_cast<Piece>(value));
}

inline void store_piece(std::byte* to, std::size_t size, Word value) noexcept {
    switch (size) {
        case 1:
            return store_piece<std::uint8_t>(to, value);
        case 2:
            return store_piece<std::uint16_t>(to, value);
        case 4:
            return store_piece<std::uint32_t>(to, value);
        default:
            return store_piece<std::uint64_t>(to, value);
    }
}

// Loads at most a word's bytes. The first byte is in the lowest bits.
inline Word load_bytes(const std::byte* from, std::size_t size) noexcept {
    Word value = 0;
    for (std::size_t done = 0, piece; done < size; done += piece) {
        piece = aligned_piece(from + done, size - done);
        value |= load_piece(from + done, piece) << (8 * done);
    }
    return value;
}

inline void store_bytes(std::byte* to, std::size_t size, Word value) noexcept {
    for (std::size_t done = 0, piece; done < size; done += piece) {
        piece = aligned_piece(to + done, size - done);
        store_piece(to + done, piece, value >> (8 * done));
    }
}

// Moves bytes between different places in a word: each word of the target has bytes of two words of
// the source.
inline void shift_bytes(std::span<std::byte> to, const std::byte* from) noexcept {
    std::byte* target = to.data();
    std::size_t left = to.size();
    std::size_t held = std::min(left, sizeof(Word) - place_in_word(from));
    Word word = load_bytes(from, held); // bytes of the last loaded word that are not stored yet
    from += held;
    const auto fill = [&](std::size_t wanted) {
        const std::size_t loaded = std::min(left - held, sizeof(Word));
        const Word next = load_bytes(from, loaded);
        store_bytes(target, wanted, word | next << (8 * held));
        word = next >> (8 * (wanted - held));
        held += loaded - wanted;
        from += loaded;
    };
    while (left != 0) {
        for (const std::size_t bits = 8 * held; place_in_word(target) == 0 && held + 8 <= left;) {
            const Word next = load_piece<Word>(from);
            store_piece<Word>(target, word | next << bits);
            word = next >> (64 - bits);
            from += sizeof(Word);
            target += sizeof(Word);
            left -= sizeof(Word);
        }
        const std::size_t wanted = std::min(left, sizeof(Word) - place_in_word(target));
        if (wanted > held) {
            fill(wanted);
        } else {
            store_bytes(target, wanted, word);
            word >>= 8 * wanted;
            held -= wanted;
        }
        target += wanted;
        left -= wanted;
    }
}

template <typename Piece>
bool move_piece(std::span<std::byte> to, const std::byte* from) noexcept {
    const auto places =
        reinterpret_cast<std::uintptr_t>(to.data()) | reinterpret_cast<std::uintptr_t>(from);
    if (to.size() != sizeof(Piece) || places % sizeof(Piece) != 0) {
        return false;
    }
    store_piece<Piece>(to.data(), load_piece<Piece>(from));
    return true;
}

// Moves bytes of which others see one side, in whole words of that side. The pieces of the body are
// as large as processors move at a time, and none of them divides a word.
inline void move_seen_words(std::span<std::byte> to, const std::byte* from,
                            const std::byte* seen) noexcept {
    constexpr std::size_t body = 64;
    const auto place = std::min(to.size(), (sizeof(Word) - place_in_word(seen)) % sizeof(Word));
    store_bytes(to.data(), place, load_bytes(from, place));
    std::byte* target = to.data() + place;
    from += place;
    std::size_t left = to.size() - place;
    for (; left > body; left -= body, target += body, from += body) {
        std::memcpy(target, from, body);
    }
    for (; left > sizeof(Word);
         left -= sizeof(Word), target += sizeof(Word), from += sizeof(Word)) {
        std::memcpy(target, from, sizeof(Word));
    }
    store_bytes(target, left, load_bytes(from, left));
}

[[gnu::noinline]] inline void move_any_bytes(std::span<std::byte> to, const std::byte* from,
                                             Seen seen) noexcept {
    const std::size_t place = place_in_word(to.data());
    if (place != place_in_word(from)) {
        return seen == Seen::both
                   ? shift_bytes(to, from)
                   : move_seen_words(to, from, seen == Seen::source ? from : to.data());
    }
    std::byte* target = to.data();
    std::size_t left = to.size();
    if (place != 0) {
        const std::size_t head = std::min(left, sizeof(Word) - place);
        store_bytes(target, head, load_bytes(from, head));
        target += head;
        from += head;
        left -= head;
    }
    const std::size_t words = left == 0 ? 0 : (left - 1) / sizeof(Word) * sizeof(Word);
    if (words != 0) {
        copy_words(target, from, words); // the guest may let them overlap
    }
    if (left - words == sizeof(Word)) {
        store_piece<Word>(target + words, load_piece<Word>(from + words));
    } else {
        store_bytes(target + words, left - words, load_bytes(from + words, left - words));
    }
}

// The most common messages are one piece.
inline void move_bytes(std::span<std::byte> to, const std::byte* from,
                       Seen seen = Seen::both) noexcept {
    if (!move_piece<std::uint64_t>(to, from) && !move_piece<std::uint32_t>(to, from)) {
        move_any_bytes(to, from, seen);
    }
}

} // namespace vrdma::hca::soft
