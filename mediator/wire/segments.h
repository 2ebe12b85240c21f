// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Segmentation offload: one frame carries the transport parts of many packets behind one set of
// headers. The kernel, or a NIC, makes packets of it, or packets made it (GRO). All parts have the
// same size, except the last one, which may be shorter. Each has its own BTH and ICRC, and the ICRC
// covers the packet's own headers. So both ends have to know these headers exactly.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "mediator/wire/encapsulation.h"

namespace vrdma::wire {

// The headers of a RoCE v2 frame from Ethernet to UDP, and those that its segments have.
class SegmentHeaders {
  public:
    static constexpr std::size_t max_size = max_encapsulation_size;

    // How IPv4's identification goes on. Those who segment count up, and a GRO of packets that all
    // have the same one keeps no note of it.
    enum class Identification : std::uint8_t { rising, fixed };

    // Nothing if the frame is not RoCE v2. A frame that was cut off has headers, too.
    static std::optional<SegmentHeaders> of(std::span<const std::byte> frame) noexcept;

    std::size_t size() const noexcept { return layout_.transport_at; }
    // The end of the frame by its headers.
    std::size_t end() const noexcept { return layout_.end; }
    bool has_identification() const noexcept { return layout_.network == Network::ipv4; }
    std::size_t udp_at() const noexcept { return size() - sizeof(vrdma_udp); }

    // The headers of the segment of that number, which has that many bytes of transport. Their UDP
    // checksum is zero.
    std::span<const std::byte> segment(std::size_t number, std::size_t bytes,
                                       Identification how = Identification::rising) noexcept;
    // Whether the frame begins with them, apart from IPv4's checksum, which who segments computes.
    bool begin(std::span<const std::byte> frame, std::size_t number) const noexcept;
    // Those of the whole. Their UDP checksum is the sum of the pseudo header, which is what a
    // checksum offload begins with.
    std::span<const std::byte> whole(std::size_t bytes) noexcept;

  private:
    Layout layout_;
    std::uint16_t identification_ = 0; // of the first segment
    std::uint16_t sum_ = 0;            // of the IPv4 header, without length and identification
    std::array<std::byte, max_size> bytes_{};
};

// Takes a frame apart. The headers of a packet are written in front of its part of the frame, over
// the packet before it, which its reader must not need any more.
class Segments {
  public:
    Segments() = default;
    // `size` is that of a segment's transport part. There is no packet if the frame is not RoCE v2
    // or the size is not one of its packets.
    Segments(std::span<std::byte> frame, std::size_t size) noexcept;

    // The next packet; empty at the end. A packet that the end of the frame cuts off is left out.
    std::span<const std::byte> next() noexcept;
    // The number of packets so far.
    std::size_t count() const noexcept { return number_; }

  private:
    std::span<std::byte> segment(SegmentHeaders::Identification how) noexcept;

    std::span<std::byte> frame_;
    std::optional<SegmentHeaders> headers_;
    SegmentHeaders::Identification how_ = SegmentHeaders::Identification::rising;
    std::size_t size_ = 0;
    std::size_t number_ = 0; // of the next segment
};

} // namespace vrdma::wire
