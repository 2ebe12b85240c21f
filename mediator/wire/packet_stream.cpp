// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/wire/packet_stream.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "mediator/wire/bytes.h"
#include "mediator/wire/checksum.h"
#include "mediator/wire/headers.h"
#include "mediator/wire/icrc.h"
#include "vrdma/roce.h"

namespace vrdma::wire {
namespace {

// Parses the transport's part of a frame with that layout.
Drop parse_transport(std::span<const std::byte> frame, const Layout& layout,
                     Packet& packet) noexcept {
    const std::size_t icrc_at = layout.end - VRDMA_ROCE_ICRC_SIZE;
    const auto transport = frame.subspan(layout.transport_at, icrc_at - layout.transport_at);
    std::size_t size = 0;
    std::size_t padding = 0;
    if (const Drop drop = parse_headers(transport, packet.headers, size, padding);
        drop != Drop::none) {
        return drop;
    }
    packet.payload = transport.subspan(size, transport.size() - size - padding);
    const auto covered = frame.subspan(layout.network_at, icrc_at - layout.network_at);
    const bool intact =
        le32toh(load<std::uint32_t>(frame, icrc_at)) == icrc(layout.network, covered);
    return intact ? Drop::none : Drop::icrc;
}

} // namespace

void PacketWriter::begin(const Path& path) noexcept {
    path_ = path;
    layout_ = wire::write_encapsulation(bytes_, path, 0, 0);
    if (layout_.network == Network::ipv4) {
        sum_ = sum_without_length(load<vrdma_ipv4>(bytes_, layout_.network_at));
    }
}

void PacketWriter::write_encapsulation(std::span<std::byte> frame, std::size_t transport_bytes,
                                       std::uint16_t identification) const noexcept {
    std::memcpy(frame.data(), bytes_.data(), layout_.transport_at);
    set_lengths(frame, layout_, sum_, transport_bytes, identification);
}

std::size_t PacketWriter::finish(std::span<std::byte> frame, const Path& path,
                                 const Headers& headers, std::size_t payload_bytes) noexcept {
    const Shape& shape = shape_of(headers.opcode);
    assert(payload_bytes == 0 || shape.may_have_payload);
    if (layout_.end == 0 || path != path_) {
        begin(path);
    }
    const std::size_t padding = trailer_size(payload_bytes) - VRDMA_ROCE_ICRC_SIZE;
    const std::size_t transport_bytes = shape.size + payload_bytes + trailer_size(payload_bytes);
    const std::size_t end = layout_.transport_at + transport_bytes;
    assert(frame.size() >= end);
    // No router may fragment the packet, so its identification means nothing (RFC 6864). If it
    // follows the PSN, the packets of a message are the segments of one frame (segments.h).
    write_encapsulation(frame, transport_bytes, static_cast<std::uint16_t>(headers.psn));
    write_headers(frame.subspan(layout_.transport_at), headers, padding);
    const std::size_t icrc_at = end - VRDMA_ROCE_ICRC_SIZE;
    std::memset(frame.data() + icrc_at - padding, 0, padding);
    const auto covered = frame.subspan(layout_.network_at, icrc_at - layout_.network_at);
    store(frame, icrc_at, htole32(icrc(layout_.network, covered)));
    return end;
}

Drop PacketReader::parse(std::span<const std::byte> frame) noexcept {
    packet_ = {}; // nothing of the packet before remains
    layout_ = {};
    const Drop drop = parse_encapsulation(frame, packet_.path, layout_);
    return drop == Drop::none ? parse_transport(frame, layout_, packet_) : drop;
}

Drop PacketReader::parse_next(std::span<const std::byte> frame) noexcept {
    if (frame.size() < layout_.transport_at + min_transport_size || layout_.transport_at == 0) {
        return parse(frame);
    }
    layout_.end = frame.size();
    packet_.headers = {};
    return parse_transport(frame, layout_, packet_);
}

} // namespace vrdma::wire
