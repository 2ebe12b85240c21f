// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/transport/roce/path.h"

#include <algorithm>

#include "mediator/hca/soft/transport/roce/port.h"
#include "mediator/wire/derived_mac.h"

namespace vrdma::hca::soft::roce {

namespace {

// The ECN bits say that the sender does not slow down. A service level that the slice may use takes
// precedence over the DSCP, because it means nothing but a priority.
void set_class(wire::Path& path, const SliceCore& slice, const vrdma_av& av) noexcept {
    const wire::Priorities& priorities = port_of(slice).priorities();
    const std::uint8_t dscp = slice.allowed_dscp(av.traffic_class);
    const std::uint8_t level = slice.allowed_service_level(av.sl);
    path.traffic_class = static_cast<std::uint8_t>(dscp << 2);
    path.priority = level != 0 ? priorities.of_service_level[level] : priorities.of_dscp[dscp];
}

} // namespace

wire::Path make_path(const SliceCore& slice, const Route& route, const vrdma_av& av) noexcept {
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
    set_class(path, slice, av);
    path.hop_limit = av.hop_limit != 0 ? av.hop_limit : far;
    path.flow_label = av.flow_label & VRDMA_AV_FLOW_LABEL;
    if (route.source.vlan != 0) {
        path.vlan = route.source.vlan;
    }
    return path;
}

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

GidKey source_of(const wire::Path& path) noexcept {
    return {path.source, static_cast<std::uint8_t>(path.type), path.vlan.value_or(0)};
}

GidKey target_of(const wire::Path& path) noexcept {
    return {path.target, static_cast<std::uint8_t>(path.type), path.vlan.value_or(0)};
}

Route route_of(const wire::Packet& packet, QpType type) noexcept {
    const wire::Path& path = packet.path;
    Route route;
    route.type = type;
    route.source = source_of(path);
    route.target = target_of(path);
    route.from = Qpn{packet.headers.source_qpn};
    route.to = Qpn{packet.headers.target_qpn};
    route.pkey = packet.headers.pkey;
    route.qkey = packet.headers.qkey;
    std::ranges::copy(path.target, std::begin(route.av.dgid));
    route.av.flow_label = path.flow_label;
    route.av.hop_limit = path.hop_limit;
    route.av.traffic_class = path.traffic_class;
    return route;
}

} // namespace vrdma::hca::soft::roce
