// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A hostile network: any bytes as a frame. They are read as they are, and once more with corrected
// checksum and ICRC, so that the input need not guess them. Each packet that was accepted can be
// sent, and is the same packet when it arrives. Then they are a frame of many packets, whose size
// the last two bytes say.
#include <net/ethernet.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "mediator/wire/bytes.h"
#include "mediator/wire/encapsulation.h"
#include "mediator/wire/icrc.h"
#include "mediator/wire/packet.h"
#include "mediator/wire/segments.h"

namespace vrdma::wire {
namespace {

using Bytes = std::vector<std::byte>;

void require(bool condition) {
    if (!condition) {
        std::abort();
    }
}

Bytes sent(const Packet& packet) {
    const std::size_t size = packet.payload.size();
    const std::size_t before = header_size(packet.path, packet.headers.opcode);
    Bytes frame(before + size + trailer_size(size));
    std::copy(packet.payload.begin(), packet.payload.end(),
              frame.begin() + static_cast<std::ptrdiff_t>(before));
    require(finish(frame, packet.path, packet.headers, size) == frame.size());
    return frame;
}

void receive(std::span<const std::byte> frame) {
    Packet packet;
    if (parse(frame, packet) != Drop::none) {
        return;
    }
    const Bytes again = sent(packet);
    Packet arrived;
    require(parse(again, arrived) == Drop::none);
    require(arrived.path == packet.path);
    require(arrived.headers == packet.headers);
    require(std::ranges::equal(arrived.payload, packet.payload));
}

std::uint16_t checksum(const vrdma_ipv4& header) {
    std::uint32_t sum = 0;
    for (std::size_t at = 0; at < sizeof(header); at += 2) {
        sum += load<std::uint16_t>(std::as_bytes(std::span{&header, 1}), at);
    }
    sum = (sum & 0xffff) + (sum >> 16);
    return static_cast<std::uint16_t>(~((sum & 0xffff) + (sum >> 16)));
}

void mend_ipv4(Bytes& frame) {
    for (const std::size_t type_at :
         {offsetof(ether_header, ether_type), sizeof(ether_header) + 2}) {
        const std::size_t at = type_at + sizeof(std::uint16_t);
        if (frame.size() >= at + sizeof(vrdma_ipv4) &&
            be16toh(load<std::uint16_t>(frame, type_at)) == ETHERTYPE_IP) {
            auto header = load<vrdma_ipv4>(frame, at);
            header.checksum = 0;
            header.checksum = checksum(header);
            store(frame, at, header);
            return;
        }
    }
}

void mend_icrc(Bytes& frame) {
    Path path;
    Layout layout;
    if (parse_encapsulation(frame, path, layout) == Drop::none) {
        const std::size_t icrc_at = layout.end - VRDMA_ROCE_ICRC_SIZE;
        const auto covered =
            std::span{frame}.subspan(layout.network_at, icrc_at - layout.network_at);
        store(frame, icrc_at, htole32(icrc(layout.network, covered)));
    }
}

void take_apart(Bytes frame) {
    if (frame.size() < sizeof(std::uint16_t)) {
        return;
    }
    const std::size_t all = frame.size();
    const std::size_t size = load<std::uint16_t>(frame, all - sizeof(std::uint16_t));
    Segments segments{frame, size};
    std::size_t taken = 0;
    for (auto packet = segments.next(); !packet.empty(); packet = segments.next()) {
        require(packet.data() >= frame.data() && &packet.back() <= &frame.back());
        require(packet.size() <= size + SegmentHeaders::max_size);
        receive(packet);
        require(++taken <= all / sizeof(vrdma_bth));
    }
}

} // namespace
} // namespace vrdma::wire

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto input = std::as_bytes(std::span{data, size});
    vrdma::wire::receive(input);
    vrdma::wire::Bytes mended{input.begin(), input.end()};
    vrdma::wire::mend_ipv4(mended);
    vrdma::wire::mend_icrc(mended);
    vrdma::wire::receive(mended);
    vrdma::wire::take_apart(std::move(mended));
    return 0;
}
