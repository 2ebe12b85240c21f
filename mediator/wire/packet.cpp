// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/wire/packet.h"

#include <cassert>

#include "mediator/wire/encapsulation.h"
#include "mediator/wire/headers.h"
#include "mediator/wire/packet_stream.h"
#include "vrdma/roce.h"

namespace vrdma::wire {
namespace {

constexpr std::size_t padding_of(std::size_t payload_bytes) {
    return -payload_bytes % 4;
}

} // namespace

Drop parse(std::span<const std::byte> frame, Packet& packet) noexcept {
    PacketReader reader;
    const Drop drop = reader.parse(frame);
    packet = reader.packet();
    return drop;
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
    return PacketWriter{}.finish(frame, path, headers, payload_bytes);
}

} // namespace vrdma::wire
