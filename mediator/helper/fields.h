// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Messages of fixed fields between vrdmad and a helper: how they are built, and how they are parsed
// so that no byte is ignored.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace vrdma::helper {

using Message = std::vector<std::byte>;

// Text that is padded with zeros, at least one.
template <std::size_t size>
using Text = std::array<char, size>;

// Returns whether the text fits.
template <std::size_t size>
bool write(Text<size>& field, const std::string& text) {
    if (text.size() >= size || text.find('\0') != std::string::npos) {
        return false;
    }
    std::ranges::copy(text, field.begin());
    return true;
}

template <std::size_t size>
std::optional<std::string> read(const Text<size>& field) {
    const auto end = std::ranges::find(field, '\0');
    if (end == field.end() || std::any_of(end, field.end(), [](char c) { return c != '\0'; })) {
        return std::nullopt;
    }
    return std::string{field.begin(), end};
}

template <typename T>
void append(Message& message, const T& part) {
    static_assert(std::has_unique_object_representations_v<T>, "padding would be sent");
    const std::size_t size = message.size();
    message.resize(size + sizeof(part));
    std::memcpy(message.data() + size, &part, sizeof(part));
}

// Removes the part from the front of the message.
template <typename T>
std::optional<T> take(std::span<const std::byte>& message) {
    if (message.size() < sizeof(T)) {
        return std::nullopt;
    }
    T part;
    std::memcpy(&part, message.data(), sizeof(part));
    message = message.subspan(sizeof(part));
    return part;
}

template <typename T>
std::optional<T> take_last(std::span<const std::byte>& message) {
    return message.size() == sizeof(T) ? take<T>(message) : std::nullopt;
}

// For a log.
inline bool is_printable(char c) {
    return c >= ' ' && c <= '~';
}
inline bool is_printable(const std::string& text) {
    return std::ranges::all_of(text, [](char c) { return is_printable(c); });
}
inline std::string printable(std::string text, std::size_t most) {
    text.resize(std::min(text.size(), most));
    std::ranges::replace_if(
        text, [](char c) { return !is_printable(c); }, '?');
    return text;
}

} // namespace vrdma::helper
