// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The headers that carry the transport's packet: Ethernet with or without a tag, then a GRH, or IP
// and UDP.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "mediator/wire/packet.h"
#include "vrdma/roce.h"

namespace vrdma::wire {

enum class Network : std::uint8_t { grh, ipv4, ipv6 };

Network network_of(const Path& path) noexcept;

// The size from the IP header or GRH to the BTH.
constexpr std::size_t network_size(Network network) noexcept {
    switch (network) {
        case Network::grh:
            return sizeof(vrdma_grh);
        case Network::ipv4:
            return sizeof(vrdma_ipv4) + sizeof(vrdma_udp);
        case Network::ipv6:
            return sizeof(vrdma_grh) + sizeof(vrdma_udp);
    }
    __builtin_unreachable();
}

// The least size of what follows: a BTH and an ICRC.
inline constexpr std::size_t min_transport_size = sizeof(vrdma_bth) + VRDMA_ROCE_ICRC_SIZE;
// Ethernet with a tag, IPv6 and UDP.
inline constexpr std::size_t max_encapsulation_size = 14 + 4 + network_size(Network::ipv6);

// The size of Ethernet's header, with the tag.
std::size_t link_size(const Path& path) noexcept;

// Offsets in a frame.
struct Layout {
    Network network = Network::grh;
    std::size_t network_at = 0;
    std::size_t transport_at = 0;
    std::size_t end = 0; // of the ICRC
};

// `path` must be as constructed: only the fields that the frame has are written.
Drop parse_encapsulation(std::span<const std::byte> frame, Path& path, Layout& layout) noexcept;

// `transport_bytes` is the size from the BTH to the ICRC, both included. The frame has room. Only
// IPv4 has an identification.
Layout write_encapsulation(std::span<std::byte> frame, const Path& path,
                           std::size_t transport_bytes, std::uint16_t identification) noexcept;

// The sum of an IPv4 header's words, by its checksum, without those of length and identification.
std::uint16_t sum_without_length(const vrdma_ipv4& header) noexcept;

// Gives the headers, which are written, other lengths and another identification. `sum` is that of
// their IPv4 header, if they have one. A UDP checksum becomes zero.
void set_lengths(std::span<std::byte> frame, const Layout& layout, std::uint16_t sum,
                 std::size_t transport_bytes, std::uint16_t identification) noexcept;

} // namespace vrdma::wire
