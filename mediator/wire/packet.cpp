// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/wire/packet.h"

#include <cassert>
#include <cstring>

#include "mediator/wire/bytes.h"
#include "mediator/wire/encapsulation.h"
#include "mediator/wire/headers.h"
#include "mediator/wire/icrc.h"
#include "vrdma/roce.h"

namespace vrdma::wire {
namespace {

constexpr std::size_t padding_of(std::size_t payload_bytes) {
    return -payload_bytes % 4;
}

} // namespace

Drop parse(std::span<const std::byte> frame, Packet& packet) noexcept {
    packet = {}; // nothing of the packet before remains
    Layout layout;
    if (const Drop drop = parse_encapsulation(frame, packet.path, layout); drop != Drop::none) {
        return drop;
    }
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

std::size_t header_size(const Path& path, std::uint8_t opcode) noexcept {
    assert(shape_of(opcode).size != 0);
    return link_size(path) + network_size(network_of(path)) + shape_of(opcode).size;
}

std::size_t trailer_size(std::size_t payload_bytes) noexcept {
    return padding_of(payload_bytes) + VRDMA_ROCE_ICRC_SIZE;
}

std::size_t finish(std::span<std::byte> frame, const Path& path, const Headers& headers,
                   std::size_t payload_bytes) noexcept {
    const Shape& shape = shape_of(headers.opcode);
    assert(payload_bytes == 0 || shape.may_have_payload);
    const std::size_t padding = padding_of(payload_bytes);
    const std::size_t transport_bytes = shape.size + payload_bytes + padding + VRDMA_ROCE_ICRC_SIZE;
    // No router may fragment the packet, so its identification means nothing (RFC 6864). If it
    // follows the PSN, the packets of a message are the segments of one frame (segments.h).
    const auto identification = static_cast<std::uint16_t>(headers.psn);
    const Layout layout = write_encapsulation(frame, path, transport_bytes, identification);
    write_headers(frame.subspan(layout.transport_at), headers, padding);
    const std::size_t icrc_at = layout.end - VRDMA_ROCE_ICRC_SIZE;
    std::memset(frame.data() + icrc_at - padding, 0, padding);
    const auto covered = frame.subspan(layout.network_at, icrc_at - layout.network_at);
    store(frame, icrc_at, htole32(icrc(layout.network, covered)));
    return layout.end;
}

} // namespace vrdma::wire
