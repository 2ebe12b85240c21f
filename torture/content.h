// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The content of messages: bytes that a key determines. Around them are bytes that must stay
// unchanged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace vrdma::torture {

constexpr std::size_t guard_size = 64;

void fill(std::span<std::byte> bytes, std::uint64_t key);
// Ends the process if a byte differs.
void verify(std::span<const std::byte> bytes, std::uint64_t key, const char* what);

// For memory that nobody may write to, or that nobody has written to yet.
void blank(std::span<std::byte> bytes);
void verify_blank(std::span<const std::byte> bytes, const char* what);

} // namespace vrdma::torture
