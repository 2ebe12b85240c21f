// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/wire/encapsulation.h"

#include <net/ethernet.h>
#include <netinet/in.h>

#include <algorithm>
#include <cassert>

#include "mediator/wire/bytes.h"
#include "mediator/wire/checksum.h"

namespace vrdma::wire {
namespace {

using Frame = std::span<const std::byte>;

// IEEE 802.1Q: the tag's control field, and the type that follows the tag.
struct Tag {
    std::uint16_t control;
    std::uint16_t type;
};
constexpr std::uint32_t tag_priority = VRDMA_MASK(15, 13);
constexpr std::uint32_t tag_vlan = VRDMA_MASK(11, 0);

constexpr std::uint32_t ip_version_6 = 6;
constexpr std::size_t ipv4_at = ipv4_prefix.size(); // in a GID

Gid gid_of_ipv4(const std::uint8_t (&address)[4]) noexcept {
    Gid gid;
    std::copy(ipv4_prefix.begin(), ipv4_prefix.end(), gid.begin());
    std::copy(std::begin(address), std::end(address), gid.begin() + ipv4_at);
    return gid;
}

// Sets network_at to the end of the Ethernet header, and `type` to the type of what follows.
Drop parse_link(Frame frame, Path& path, Layout& layout, std::uint16_t& type) noexcept {
    if (frame.size() < sizeof(ether_header)) {
        return Drop::truncated;
    }
    const auto header = load<ether_header>(frame, 0);
    std::copy(std::begin(header.ether_dhost), std::end(header.ether_dhost),
              path.target_mac.begin());
    std::copy(std::begin(header.ether_shost), std::end(header.ether_shost),
              path.source_mac.begin());
    type = be16toh(header.ether_type);
    layout.network_at = sizeof(header);
    if (type != ETHERTYPE_VLAN) {
        return Drop::none;
    }
    if (frame.size() < sizeof(header) + sizeof(Tag)) {
        return Drop::truncated;
    }
    const auto tag = load<Tag>(frame, sizeof(header));
    const std::uint32_t control = be16toh(tag.control);
    path.vlan = static_cast<std::uint16_t>(VRDMA_GET(tag_vlan, control));
    path.priority = static_cast<std::uint8_t>(VRDMA_GET(tag_priority, control));
    type = be16toh(tag.type);
    layout.network_at += sizeof(tag);
    return Drop::none;
}

// Checks the length that a network header gives. The frame may be longer, because Ethernet pads
// short ones.
Drop check_end(Frame frame, const Layout& layout) noexcept {
    if (layout.end < layout.transport_at + min_transport_size) {
        return Drop::malformed;
    }
    return layout.end > frame.size() ? Drop::truncated : Drop::none;
}

// Parses UDP behind an IP header that says that `length` bytes follow. The checksum is ignored: the
// ICRC covers the same bytes, and some interfaces leave the checksum to another end that does not
// compute it.
Drop parse_udp(Frame frame, std::size_t at, std::size_t length, Path& path,
               Layout& layout) noexcept {
    if (frame.size() < at + sizeof(vrdma_udp)) {
        return Drop::truncated;
    }
    const auto udp = load<vrdma_udp>(frame, at);
    if (be16toh(udp.target_port) != VRDMA_ROCE_UDP_PORT) {
        return Drop::other;
    }
    path.source_port = be16toh(udp.source_port);
    layout.transport_at = at + sizeof(udp);
    layout.end = at + length;
    return be16toh(udp.length) == length ? check_end(frame, layout) : Drop::malformed;
}

Drop parse_ipv4(Frame frame, Path& path, Layout& layout) noexcept {
    if (frame.size() < layout.network_at + sizeof(vrdma_ipv4)) {
        return Drop::truncated;
    }
    const auto header = load<vrdma_ipv4>(frame, layout.network_at);
    if (header.protocol != IPPROTO_UDP) {
        return Drop::other;
    }
    constexpr std::uint32_t fragment = VRDMA_IPV4_MORE_FRAGMENTS | VRDMA_IPV4_FRAGMENT_OFFSET;
    const std::size_t length = be16toh(header.length);
    if (header.version != VRDMA_IPV4_VERSION || (be16toh(header.fragment) & fragment) != 0 ||
        length < sizeof(header) || checksum(header) != 0) {
        return Drop::malformed;
    }
    layout.network = Network::ipv4;
    path.type = Encapsulation::roce_v2;
    path.source = gid_of_ipv4(header.source);
    path.target = gid_of_ipv4(header.target);
    path.traffic_class = header.traffic_class;
    path.hop_limit = header.hop_limit;
    return parse_udp(frame, layout.network_at + sizeof(header), length - sizeof(header), path,
                     layout);
}

// Parses the layout that a GRH and an IPv6 header share.
Drop parse_grh(Frame frame, Path& path, const Layout& layout, vrdma_grh& header) noexcept {
    if (frame.size() < layout.network_at + sizeof(header)) {
        return Drop::truncated;
    }
    header = load<vrdma_grh>(frame, layout.network_at);
    const std::uint32_t word = be32toh(header.version);
    std::copy(std::begin(header.source), std::end(header.source), path.source.begin());
    std::copy(std::begin(header.target), std::end(header.target), path.target.begin());
    path.traffic_class = static_cast<std::uint8_t>(VRDMA_GET(VRDMA_GRH_TRAFFIC_CLASS, word));
    path.hop_limit = header.hop_limit;
    path.flow_label = VRDMA_GET(VRDMA_GRH_FLOW_LABEL, word);
    return VRDMA_GET(VRDMA_GRH_VERSION, word) == ip_version_6 ? Drop::none : Drop::malformed;
}

Drop parse_ipv6(Frame frame, Path& path, Layout& layout) noexcept {
    vrdma_grh header;
    if (const Drop drop = parse_grh(frame, path, layout, header); drop != Drop::none) {
        return drop;
    }
    if (header.next_header != IPPROTO_UDP) {
        return Drop::other;
    }
    if (is_ipv4(path.source) || is_ipv4(path.target)) {
        return Drop::malformed; // it would be mistaken for IPv4
    }
    layout.network = Network::ipv6;
    path.type = Encapsulation::roce_v2;
    return parse_udp(frame, layout.network_at + sizeof(header), be16toh(header.payload_length),
                     path, layout);
}

Drop parse_roce_v1(Frame frame, Path& path, Layout& layout) noexcept {
    vrdma_grh header;
    if (const Drop drop = parse_grh(frame, path, layout, header); drop != Drop::none) {
        return drop;
    }
    if (header.next_header != VRDMA_ROCE_NEXT_HEADER) {
        return Drop::malformed;
    }
    layout.network = Network::grh;
    path.type = Encapsulation::roce_v1;
    layout.transport_at = layout.network_at + sizeof(header);
    layout.end = layout.transport_at + be16toh(header.payload_length);
    return check_end(frame, layout);
}

std::uint16_t type_of(Network network) noexcept {
    switch (network) {
        case Network::grh:
            return VRDMA_ROCE_ETHERTYPE;
        case Network::ipv4:
            return ETHERTYPE_IP;
        case Network::ipv6:
            return ETHERTYPE_IPV6;
    }
    __builtin_unreachable();
}

void write_link(std::span<std::byte> frame, const Path& path, std::uint16_t type) noexcept {
    ether_header header;
    std::copy(path.target_mac.begin(), path.target_mac.end(), std::begin(header.ether_dhost));
    std::copy(path.source_mac.begin(), path.source_mac.end(), std::begin(header.ether_shost));
    header.ether_type = htobe16(path.vlan ? std::uint16_t{ETHERTYPE_VLAN} : type);
    store(frame, 0, header);
    if (path.vlan) {
        const std::uint32_t control = VRDMA_SET(tag_priority, std::uint32_t{path.priority}) |
                                      VRDMA_SET(tag_vlan, std::uint32_t{*path.vlan});
        store(frame, sizeof(header),
              Tag{htobe16(static_cast<std::uint16_t>(control)), htobe16(type)});
    }
}

void write_ipv4(std::span<std::byte> frame, std::size_t at, const Path& path, std::size_t length,
                std::uint16_t identification) noexcept {
    vrdma_ipv4 header{};
    header.version = VRDMA_IPV4_VERSION;
    header.traffic_class = path.traffic_class;
    header.length = htobe16(static_cast<std::uint16_t>(sizeof(header) + length));
    header.identification = htobe16(identification);
    header.fragment = htobe16(VRDMA_IPV4_DONT_FRAGMENT);
    header.hop_limit = path.hop_limit;
    header.protocol = IPPROTO_UDP;
    std::copy(path.source.begin() + ipv4_at, path.source.end(), std::begin(header.source));
    std::copy(path.target.begin() + ipv4_at, path.target.end(), std::begin(header.target));
    header.checksum = checksum(header);
    store(frame, at, header);
}

void write_grh(std::span<std::byte> frame, std::size_t at, const Path& path, std::size_t length,
               std::uint8_t next_header) noexcept {
    vrdma_grh header;
    header.version = htobe32(VRDMA_SET(VRDMA_GRH_VERSION, ip_version_6) |
                             VRDMA_SET(VRDMA_GRH_TRAFFIC_CLASS, std::uint32_t{path.traffic_class}) |
                             VRDMA_SET(VRDMA_GRH_FLOW_LABEL, path.flow_label));
    header.payload_length = htobe16(static_cast<std::uint16_t>(length));
    header.next_header = next_header;
    header.hop_limit = path.hop_limit;
    std::copy(path.source.begin(), path.source.end(), std::begin(header.source));
    std::copy(path.target.begin(), path.target.end(), std::begin(header.target));
    store(frame, at, header);
}

void write_udp(std::span<std::byte> frame, std::size_t at, const Path& path,
               std::size_t length) noexcept {
    store(frame, at,
          vrdma_udp{htobe16(path.source_port), htobe16(VRDMA_ROCE_UDP_PORT),
                    htobe16(static_cast<std::uint16_t>(length)), 0});
}

} // namespace

Network network_of(const Path& path) noexcept {
    if (path.type == Encapsulation::roce_v1) {
        return Network::grh;
    }
    return is_ipv4(path.source) && is_ipv4(path.target) ? Network::ipv4 : Network::ipv6;
}

std::size_t link_size(const Path& path) noexcept {
    return sizeof(ether_header) + (path.vlan ? sizeof(Tag) : 0);
}

Drop parse_encapsulation(std::span<const std::byte> frame, Path& path, Layout& layout) noexcept {
    std::uint16_t type = 0;
    if (const Drop drop = parse_link(frame, path, layout, type); drop != Drop::none) {
        return drop;
    }
    switch (type) {
        case ETHERTYPE_IP:
            return parse_ipv4(frame, path, layout);
        case ETHERTYPE_IPV6:
            return parse_ipv6(frame, path, layout);
        case VRDMA_ROCE_ETHERTYPE:
            return parse_roce_v1(frame, path, layout);
        default:
            return Drop::other;
    }
}

Layout write_encapsulation(std::span<std::byte> frame, const Path& path,
                           std::size_t transport_bytes, std::uint16_t identification) noexcept {
    const Network network = network_of(path);
    const std::size_t at = link_size(path);
    const std::size_t transport_at = at + network_size(network);
    const std::size_t udp_length = sizeof(vrdma_udp) + transport_bytes;
    assert(frame.size() >= transport_at + transport_bytes);
    write_link(frame, path, type_of(network));
    switch (network) {
        case Network::grh:
            write_grh(frame, at, path, transport_bytes, VRDMA_ROCE_NEXT_HEADER);
            break;
        case Network::ipv4:
            write_ipv4(frame, at, path, udp_length, identification);
            write_udp(frame, at + sizeof(vrdma_ipv4), path, udp_length);
            break;
        case Network::ipv6:
            write_grh(frame, at, path, udp_length, IPPROTO_UDP);
            write_udp(frame, at + sizeof(vrdma_grh), path, udp_length);
            break;
    }
    return {network, at, transport_at, transport_at + transport_bytes};
}

// The sum of all words and the checksum is ones. Subtracting is adding the complement (RFC 1624).
std::uint16_t sum_without_length(const vrdma_ipv4& header) noexcept {
    const auto without = [](std::uint16_t word) { return std::uint16_t(~word); };
    return fold(std::uint32_t{without(header.checksum)} + without(header.length) +
                without(header.identification));
}

void set_lengths(std::span<std::byte> frame, const Layout& layout, std::uint16_t sum,
                 std::size_t transport_bytes, std::uint16_t identification) noexcept {
    const std::size_t at = layout.network_at;
    const auto length = [](std::size_t bytes) {
        return htobe16(static_cast<std::uint16_t>(bytes));
    };
    const auto udp_length = length(sizeof(vrdma_udp) + transport_bytes);
    if (layout.network == Network::grh) {
        return store(frame, at + offsetof(vrdma_grh, payload_length), length(transport_bytes));
    }
    if (layout.network == Network::ipv4) {
        const auto all = length(sizeof(vrdma_ipv4) + sizeof(vrdma_udp) + transport_bytes);
        const auto number = htobe16(identification);
        store(frame, at + offsetof(vrdma_ipv4, length), all);
        store(frame, at + offsetof(vrdma_ipv4, identification), number);
        store(frame, at + offsetof(vrdma_ipv4, checksum),
              static_cast<std::uint16_t>(~fold(std::uint32_t{sum} + all + number)));
    } else {
        store(frame, at + offsetof(vrdma_grh, payload_length), udp_length);
    }
    const std::size_t udp_at = layout.transport_at - sizeof(vrdma_udp);
    store(frame, udp_at + offsetof(vrdma_udp, length), udp_length);
    store(frame, udp_at + offsetof(vrdma_udp, checksum), std::uint16_t{0});
}

} // namespace vrdma::wire
