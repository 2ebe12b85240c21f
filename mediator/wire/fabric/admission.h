// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Strangers have connected, and have not proved their names yet. When another one comes and there
// is no place, one of them is dropped. So a crowd of silent strangers keeps nobody out for longer
// than it takes to prove a name.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <optional>
#include <span>

namespace vrdma::wire::fabric {

// The origin of a stranger: an IPv4 address, or an IPv6 network of /64, because one host may have
// all addresses of it. All other addresses are one source.
using Source = std::array<std::uint8_t, 16>;

Source source_of(const void* address, std::size_t size) noexcept;

constexpr std::size_t max_strangers = 64;
constexpr std::size_t max_strangers_of_source = 4;

// Returns the stranger to drop, of those that are there, in the order in which they came: the
// oldest of the same source if that source has its share, the oldest of the source with the most
// strangers if all places are taken, or none if there is room.
std::optional<std::size_t> goes_for(const Source& comes, std::span<const Source> there) noexcept;

} // namespace vrdma::wire::fabric
