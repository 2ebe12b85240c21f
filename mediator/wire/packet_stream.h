// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Packets one after the other. Most have the headers of the packet before, apart from what differs
// between packets of one message, so these headers are not written or parsed once more.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "mediator/wire/encapsulation.h"
#include "mediator/wire/packet.h"

namespace vrdma::wire {

class PacketWriter {
  public:
    // As the function of this name.
    std::size_t finish(std::span<std::byte> frame, const Path& path, const Headers& headers,
                       std::size_t payload_bytes) noexcept;

  private:
    void begin(const Path& path) noexcept;
    void write_encapsulation(std::span<std::byte> frame, std::size_t transport_bytes,
                             std::uint16_t identification) const noexcept;

    Path path_;
    Layout layout_; // of a packet without a transport part; none is written yet if it has no end
    std::array<std::byte, max_encapsulation_size> bytes_{}; // of that packet
    std::uint16_t sum_ = 0; // of its IPv4 header, without length and identification
};

class PacketReader {
  public:
    // As the function of this name.
    Drop parse(std::span<const std::byte> frame) noexcept;
    // The same for a frame whose headers below the transport are those of the frame before, apart
    // from lengths, checksums and identification, and which ends with its ICRC.
    Drop parse_next(std::span<const std::byte> frame) noexcept;

    // Valid only with Drop::none.
    const Packet& packet() const noexcept { return packet_; }

  private:
    Packet packet_;
    Layout layout_;
};

} // namespace vrdma::wire
