// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/wire/segments.h"

#include <netinet/in.h>

#include <algorithm>
#include <cassert>
#include <cstring>

#include "mediator/wire/bytes.h"
#include "mediator/wire/checksum.h"
#include "mediator/wire/packet.h"

namespace vrdma::wire {
namespace {

// RFC 768 and RFC 8200 8.1: the addresses, the length and the protocol.
std::uint16_t sum_of_pseudo_header(std::span<const std::byte> addresses, std::uint16_t udp_length) {
    std::array<std::byte, 2 * sizeof(Gid) + 2 * sizeof(std::uint16_t)> pseudo{};
    std::ranges::copy(addresses, pseudo.begin());
    store(pseudo, pseudo.size() - 4, htobe16(udp_length));
    store(pseudo, pseudo.size() - 2, htobe16(IPPROTO_UDP));
    return static_cast<std::uint16_t>(~checksum(pseudo));
}

} // namespace

std::optional<SegmentHeaders> SegmentHeaders::of(std::span<const std::byte> frame) noexcept {
    SegmentHeaders headers;
    Path path;
    const Drop drop = parse_encapsulation(frame, path, headers.layout_);
    const Layout& layout = headers.layout_;
    const bool known = drop == Drop::none || (drop == Drop::truncated && layout.end != 0);
    if (!known || layout.network == Network::grh || frame.size() < layout.transport_at) {
        return std::nullopt;
    }
    std::ranges::copy(frame.first(layout.transport_at), headers.bytes_.begin());
    if (layout.network == Network::ipv4) {
        const auto header = load<vrdma_ipv4>(frame, layout.network_at);
        headers.identification_ = be16toh(header.identification);
        headers.sum_ = sum_without_length(header);
    }
    return headers;
}

std::span<const std::byte> SegmentHeaders::segment(std::size_t number, std::size_t bytes,
                                                   Identification how) noexcept {
    const std::size_t rise = how == Identification::rising ? number : 0;
    set_lengths(bytes_, layout_, sum_, bytes, static_cast<std::uint16_t>(identification_ + rise));
    return std::span{bytes_}.first(size());
}

// For each packet that is sent: no header is made for it.
bool SegmentHeaders::begin(std::span<const std::byte> frame, std::size_t number) const noexcept {
    if (frame.size() <= size()) {
        return false;
    }
    const auto same = [&](std::size_t at, std::size_t bytes) {
        return std::memcmp(&frame[at], &bytes_[at], bytes) == 0;
    };
    const auto is = [&](std::size_t at, std::size_t value) {
        return load<std::uint16_t>(frame, at) == htobe16(static_cast<std::uint16_t>(value));
    };
    const std::size_t udp_length = frame.size() - udp_at();
    const std::size_t at = layout_.network_at;
    if (!is(udp_at() + offsetof(vrdma_udp, length), udp_length) ||
        load<std::uint16_t>(frame, udp_at() + offsetof(vrdma_udp, checksum)) != 0) {
        return false;
    }
    constexpr std::size_t ports = offsetof(vrdma_udp, length);
    if (layout_.network != Network::ipv4) {
        constexpr std::size_t after = offsetof(vrdma_grh, next_header);
        return same(0, at + offsetof(vrdma_grh, payload_length)) &&
               same(at + after, sizeof(vrdma_grh) - after + ports) &&
               is(at + offsetof(vrdma_grh, payload_length), udp_length);
    }
    constexpr std::size_t fragment = offsetof(vrdma_ipv4, fragment);
    constexpr std::size_t addresses = offsetof(vrdma_ipv4, source);
    return same(0, at + offsetof(vrdma_ipv4, length)) &&
           is(at + offsetof(vrdma_ipv4, length), sizeof(vrdma_ipv4) + udp_length) &&
           is(at + offsetof(vrdma_ipv4, identification), identification_ + number) &&
           same(at + fragment, offsetof(vrdma_ipv4, checksum) - fragment) &&
           same(at + addresses, sizeof(vrdma_ipv4) - addresses + ports);
}

std::span<const std::byte> SegmentHeaders::whole(std::size_t bytes) noexcept {
    segment(0, bytes);
    const bool ipv4 = layout_.network == Network::ipv4;
    const std::size_t addresses_size =
        2 * (ipv4 ? sizeof(vrdma_ipv4::source) : sizeof(vrdma_grh::source));
    const auto addresses = std::span{bytes_}.subspan(udp_at() - addresses_size, addresses_size);
    store(bytes_, udp_at() + offsetof(vrdma_udp, checksum),
          sum_of_pseudo_header(addresses, static_cast<std::uint16_t>(sizeof(vrdma_udp) + bytes)));
    return std::span{bytes_}.first(size());
}

Segments::Segments(std::span<std::byte> frame, std::size_t size) noexcept
    : frame_{frame}, headers_{SegmentHeaders::of(frame)}, size_{size} {
    if (size < min_transport_size || size > max_frame_size) {
        headers_.reset();
    }
}

std::span<std::byte> Segments::segment(SegmentHeaders::Identification how) noexcept {
    const std::size_t at = headers_->size() + number_ * size_;
    const std::size_t bytes = std::min(size_, headers_->end() - at);
    const auto headers = headers_->segment(number_, bytes, how);
    const auto packet = frame_.subspan(at - headers.size(), headers.size() + bytes);
    std::ranges::copy(headers, packet.begin());
    return packet;
}

// The second packet shows how identifications go on: its ICRC is right with one of them.
std::span<const std::byte> Segments::next() noexcept {
    using Identification = SegmentHeaders::Identification;
    const std::size_t at = headers_ ? headers_->size() + number_ * size_ : frame_.size();
    if (at >= frame_.size() || at >= headers_->end() ||
        std::min(at + size_, headers_->end()) > frame_.size()) {
        return {};
    }
    if (Packet packet; number_ == 1 && headers_->has_identification() &&
                       parse(segment(Identification::rising), packet) == Drop::icrc &&
                       parse(segment(Identification::fixed), packet) == Drop::none) {
        how_ = Identification::fixed;
    }
    const auto next = segment(how_);
    ++number_;
    return next;
}

} // namespace vrdma::wire
