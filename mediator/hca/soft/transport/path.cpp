// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/transport/path.h"

#include <algorithm>

#include "mediator/hca/soft/slice/slice_core.h"
#include "mediator/wire/derived_mac.h"

namespace vrdma::hca::soft {
namespace {

// Routers spread flows by the UDP source port (A17.9.1). It is the same for all packets of a QP.
std::uint16_t flow_port(const vrdma_av& av, Qpn from, Qpn to) noexcept {
    constexpr std::uint32_t ports = 0x3fff;
    constexpr std::uint32_t first_port = 0xc000;
    constexpr unsigned port_bits = 14;
    std::uint32_t label = av.flow_label & VRDMA_AV_FLOW_LABEL;
    if (label == 0) {
        const std::uint64_t product = std::uint64_t{from.value} * to.value;
        label = static_cast<std::uint32_t>(product ^ product >> 20 ^ product >> 40);
    }
    return static_cast<std::uint16_t>(first_port | ((label ^ (label >> port_bits)) & ports));
}

} // namespace

// The ECN bits say that the sender does not slow down.
wire::Path path_of(const SliceCore& slice, const Route& route, const vrdma_av& av) noexcept {
    constexpr std::uint8_t far = 64; // the default of hosts' IP stacks
    wire::Path path;
    path.type = static_cast<wire::Encapsulation>(route.source.type);
    path.source_mac = slice.mac();
    if (is_multicast(route.target.gid)) {
        path.target_mac = *wire::derived_mac(route.target.gid);
    } else {
        std::copy(std::begin(av.dmac), std::end(av.dmac), path.target_mac.begin());
    }
    path.source = route.source.gid;
    path.target = route.target.gid;
    path.traffic_class = static_cast<std::uint8_t>(slice.allowed_dscp(av.traffic_class) << 2);
    path.hop_limit = av.hop_limit != 0 ? av.hop_limit : far;
    path.flow_label = av.flow_label & VRDMA_AV_FLOW_LABEL;
    if (route.source.vlan != 0) {
        path.vlan = route.source.vlan;
    }
    path.source_port = flow_port(av, route.from, route.to);
    return path;
}

} // namespace vrdma::hca::soft
