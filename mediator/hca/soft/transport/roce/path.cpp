// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/transport/roce/path.h"

#include <algorithm>

#include "mediator/hca/soft/transport/path.h"
#include "mediator/hca/soft/transport/roce/port.h"

namespace vrdma::hca::soft::roce {

// A service level that the slice may use takes precedence over the DSCP, because it means nothing
// but a priority.
wire::Path make_path(const SliceCore& slice, const Route& route, const vrdma_av& av) noexcept {
    wire::Path path = path_of(slice, route, av);
    const wire::Priorities& priorities = port_of(slice).priorities();
    const std::uint8_t level = slice.allowed_service_level(av.sl);
    path.priority = level != 0 ? priorities.of_service_level[level]
                               : priorities.of_dscp[path.traffic_class >> 2];
    return path;
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
