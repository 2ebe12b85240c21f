// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Sets of small numbers, written as an array of strings: ["7", "100-199"].
#pragma once

#include <fmt/format.h>

#include <array>
#include <bit>
#include <bitset>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "mediator/control/config/section.h"
#include "mediator/wire/priorities.h"

namespace vrdma::control {

// Adds "7" or "100-199" to `numbers`. Returns false if the text is neither, or a number is not from
// `min` to `max`.
template <std::size_t N>
bool add_numbers(std::string_view text, unsigned min, unsigned max, std::bitset<N>& numbers) {
    const char* const end = text.data() + text.size();
    unsigned first = 0;
    auto parsed = std::from_chars(text.data(), end, first);
    unsigned last = first;
    if (parsed.ec == std::errc{} && parsed.ptr != end && *parsed.ptr == '-') {
        parsed = std::from_chars(parsed.ptr + 1, end, last);
    }
    if (parsed.ec != std::errc{} || parsed.ptr != end || first < min || last < first ||
        last > max) {
        return false;
    }
    for (unsigned number = first; number <= last; ++number) {
        numbers.set(number);
    }
    return true;
}

// Replaces `out` if the file has the key.
template <std::size_t N>
void read_numbers(Section& section, std::string_view key, unsigned min, std::bitset<N>& out) {
    if (!section.has(key)) {
        return;
    }
    out.reset();
    for (const std::string& text : section.texts(key)) {
        if (!add_numbers(text, min, N - 1, out)) {
            section.refuse(
                key, fmt::format("numbers from {} to {} such as \"5\" or \"3-5\"", min, N - 1));
        }
    }
}

// Gives the numbers of "26:3" or "24-31:3" their priority. Returns false if the text is neither.
template <std::size_t N>
bool set_priority(std::string_view text, unsigned min, std::array<std::uint8_t, N>& priorities) {
    const std::size_t colon = text.find(':');
    if (colon == text.npos) {
        return false;
    }
    std::bitset<N> numbers;
    std::bitset<wire::Priorities::count> priority;
    if (!add_numbers(text.substr(0, colon), min, N - 1, numbers) ||
        !add_numbers(text.substr(colon + 1), 0, priority.size() - 1, priority) ||
        priority.count() != 1) {
        return false;
    }
    for (std::size_t i = 0; i < N; ++i) {
        if (numbers[i]) {
            priorities[i] = static_cast<std::uint8_t>(std::countr_zero(priority.to_ulong()));
        }
    }
    return true;
}

template <std::size_t N>
void read_priorities(Section& section, std::string_view key, unsigned min,
                     std::array<std::uint8_t, N>& priorities) {
    for (const std::string& text : section.texts(key)) {
        if (!set_priority(text, min, priorities)) {
            section.refuse(key,
                           fmt::format("numbers from {} to {} with a priority from 0 to {} such "
                                       "as \"5:3\" or \"3-5:3\"",
                                       min, N - 1, wire::Priorities::count - 1));
        }
    }
}

} // namespace vrdma::control
