// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "torture/content.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "torture/failure.h"
#include "torture/random.h"

namespace vrdma::torture {
namespace {

constexpr std::byte untouched{0xa5};

// Calls use(offset, word, size) for each word of the content.
template <typename Use>
void each_word(std::size_t size, std::uint64_t key, Use&& use) {
    Random random{key};
    for (std::size_t offset = 0; offset < size; offset += sizeof(std::uint64_t)) {
        use(offset, random.next(), std::min(sizeof(std::uint64_t), size - offset));
    }
}

[[noreturn]] void differs(const char* what, std::size_t offset, std::size_t size) {
    fail(std::string{what} + ": wrong data from byte " + std::to_string(offset) + " of " +
         std::to_string(size) + " on");
}

} // namespace

void fill(std::span<std::byte> bytes, std::uint64_t key) {
    each_word(bytes.size(), key, [&](std::size_t offset, std::uint64_t word, std::size_t size) {
        std::memcpy(bytes.data() + offset, &word, size);
    });
}

void verify(std::span<const std::byte> bytes, std::uint64_t key, const char* what) {
    each_word(bytes.size(), key, [&](std::size_t offset, std::uint64_t word, std::size_t size) {
        if (std::memcmp(bytes.data() + offset, &word, size) != 0) {
            differs(what, offset, bytes.size());
        }
    });
}

void blank(std::span<std::byte> bytes) {
    std::ranges::fill(bytes, untouched);
}

void verify_blank(std::span<const std::byte> bytes, const char* what) {
    const auto touched =
        std::ranges::find_if(bytes, [](std::byte byte) { return byte != untouched; });
    if (touched != bytes.end()) {
        differs(what, static_cast<std::size_t>(touched - bytes.begin()), bytes.size());
    }
}

} // namespace vrdma::torture
