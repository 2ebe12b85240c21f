// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// What messages carry: bytes that a key determines, and around them bytes that must stay as they
// are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace vrdma::torture {

constexpr std::size_t guard_size = 64;

void fill(std::span<std::byte> bytes, std::uint64_t key);
// Ends the process if a byte is another.
void verify(std::span<const std::byte> bytes, std::uint64_t key, const char* what);

// Of memory that nobody may write to, or has not yet.
void blank(std::span<std::byte> bytes);
void verify_blank(std::span<const std::byte> bytes, const char* what);

} // namespace vrdma::torture
