// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// What lies before each frame of a packet socket with PACKET_VNET_HDR: virtio's header (virtio 1.2,
// 5.1.6), in host order. Linux's own declaration is not C++. Linux before 6.2 refuses frames that
// are cut into UDP datagrams.
#pragma once

#include <cstddef>
#include <cstdint>

namespace vrdma::wire {

struct Offload {
    static constexpr std::uint8_t needs_checksum = 1;   // in `flags`
    static constexpr std::uint8_t udp_segmentation = 5; // in `kind`

    std::uint8_t flags;
    std::uint8_t kind;
    std::uint16_t headers_size; // from Ethernet to UDP
    std::uint16_t segment_size; // of the bytes after them
    std::uint16_t checksum_start;
    std::uint16_t checksum_offset; // from there
};
static_assert(sizeof(Offload) == 10);

// A longer segmented frame does not fit a slot of the receiver's ring.
inline constexpr std::size_t max_segmented_size = (std::size_t{64} << 10) - 256;

} // namespace vrdma::wire
