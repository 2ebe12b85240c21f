// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/transport/grh.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/ip.h>

#include <algorithm>

#include "mediator/wire/checksum.h"

namespace vrdma::hca::soft {
namespace {

constexpr std::uint8_t next_header_ibta = 27;
constexpr std::size_t transport_length = 12 + 8 + 4; // BTH, DETH, ICRC
constexpr std::size_t immediate_length = 4;
constexpr std::size_t udp_length = 8;

// A packet's payload is padded to a multiple of four bytes.
constexpr std::size_t padded(std::size_t payload_length) noexcept {
    return (payload_length + 3) & ~std::size_t{3};
}

struct Ipv6Header { // and GRH: IBA 8.3 has the same layout
    std::uint32_t version_class_flow;
    std::uint16_t payload_length;
    std::uint8_t next_header;
    std::uint8_t hop_limit;
    Gid source;
    Gid destination;
};
static_assert(sizeof(Ipv6Header) == VRDMA_UD_GRH_SIZE);

std::uint32_t ipv4(const Gid& gid) noexcept {
    std::uint32_t address;
    std::memcpy(&address, gid.data() + ipv4_prefix.size(), sizeof(address));
    return address;
}

Grh ipv4_header(const GidKey& source, const Gid& destination, const vrdma_av& av,
                std::size_t length) noexcept {
    iphdr header{};
    header.version = 4;
    header.ihl = 5;
    header.tos = av.traffic_class;
    header.tot_len = htons(static_cast<std::uint16_t>(sizeof(header) + udp_length + length));
    header.frag_off = htons(IP_DF);
    header.ttl = av.hop_limit;
    header.protocol = IPPROTO_UDP;
    header.saddr = ipv4(source.gid);
    header.daddr = ipv4(destination);
    header.check = wire::checksum(header); // receivers tell the two kinds apart by it
    Grh grh{};
    std::memcpy(grh.data() + grh.size() - sizeof(header), &header, sizeof(header));
    return grh;
}

Gid destination_of(const vrdma_av& av) noexcept {
    Gid destination;
    std::copy(std::begin(av.dgid), std::end(av.dgid), destination.begin());
    return destination;
}

} // namespace

std::uint8_t header_kind(const GidKey& source, const vrdma_av& av) noexcept {
    if (source.type != VRDMA_GID_ROCE_V2) {
        return VRDMA_CQE_HEADER_GRH;
    }
    return is_ipv4(source.gid) && is_ipv4(destination_of(av)) ? VRDMA_CQE_HEADER_IPV4
                                                              : VRDMA_CQE_HEADER_IPV6;
}

Grh make_grh(const GidKey& source, const vrdma_av& av, std::uint32_t payload_length,
             bool has_imm) noexcept {
    const Gid destination = destination_of(av);
    const std::uint8_t kind = header_kind(source, av);
    const bool routed = kind != VRDMA_CQE_HEADER_GRH;
    const std::size_t length =
        transport_length + (has_imm ? immediate_length : 0) + padded(payload_length);
    if (kind == VRDMA_CQE_HEADER_IPV4) {
        return ipv4_header(source, destination, av, length);
    }
    constexpr std::uint32_t flow_label_mask = 0xfffff;
    Ipv6Header header{};
    header.version_class_flow =
        htonl(6u << 28 | std::uint32_t{av.traffic_class} << 20 | (av.flow_label & flow_label_mask));
    header.payload_length = htons(static_cast<std::uint16_t>(length + (routed ? udp_length : 0)));
    header.next_header = routed ? std::uint8_t{IPPROTO_UDP} : next_header_ibta;
    header.hop_limit = av.hop_limit;
    header.source = source.gid;
    header.destination = destination;
    Grh grh;
    std::memcpy(grh.data(), &header, sizeof(header));
    return grh;
}

} // namespace vrdma::hca::soft
