// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Strangers have connected and not said who they are. When another one comes and there is no place,
// one of them goes. So a crowd of the silent keeps nobody out for longer than it takes to say it.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <optional>
#include <span>

namespace vrdma::wire::fabric {

// Where strangers come from: an IPv4 address, or an IPv6 network of /64, which one host may have
// all addresses of. All that is neither is one source.
using Source = std::array<std::uint8_t, 16>;

Source source_of(const void* address, std::size_t size) noexcept;

constexpr std::size_t max_strangers = 64;
constexpr std::size_t max_strangers_of_source = 4;

// Of those that are there, in the order in which they came: the oldest of the same source if it has
// its share, the oldest of the source with the most if all places are taken; none if there is room.
std::optional<std::size_t> goes_for(const Source& comes, std::span<const Source> there) noexcept;

} // namespace vrdma::wire::fabric
