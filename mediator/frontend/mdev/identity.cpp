// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/frontend/mdev/identity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string_view>

namespace vrdma::mdev {
namespace {

// The module terminates the text with a zero, but this function does not depend on it.
template <std::size_t N>
std::string_view text_of(const char (&field)[N]) {
    return {field, ::strnlen(field, N)};
}

// The module does not set VLAN 0, which means no VLAN, but this function does not depend on it.
verbs::Vlans vlans_of(const vrdma_mdev_device_info& info) {
    verbs::Vlans vlans;
    for (std::size_t vlan = 1; vlan < vlans.size(); ++vlan) {
        vlans.set(vlan, (info.vlans[vlan / 64] >> vlan % 64 & 1) != 0);
    }
    return vlans;
}

} // namespace

std::string uuid_text(std::span<const std::uint8_t, 16> uuid) {
    std::string text;
    for (std::size_t i = 0; i < uuid.size(); ++i) {
        text += fmt::format("{}{:02x}", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
    }
    return text;
}

verbs::Identity identity_of(const vrdma_mdev_device_info& info, const DeviceType& type) {
    verbs::Identity identity;
    identity.uplink = info.uplink_set != 0 ? text_of(info.uplink) : type.uplink;
    if (identity.uplink == type.uplink) { // the type's values are for the type's network only
        identity.vlans = type.vlans;
        identity.traffic_classes = type.traffic_classes;
        identity.service_levels = type.service_levels;
    }
    identity.port_speed = type.port_speed;
    identity.pkeys = type.pkeys;
    if (info.vlans_set != 0) {
        identity.vlans = vlans_of(info);
    }
    std::ranges::copy(info.mac, identity.mac.begin());
    if (identity.mac == verbs::Mac{}) {
        identity.mac = verbs::derived_mac(info.uuid);
    }
    auto prefixes = verbs::parse_prefixes(text_of(info.addresses));
    identity.prefixes_valid = prefixes.has_value();
    if (prefixes) {
        identity.prefixes = std::move(*prefixes);
    }
    return identity;
}

hca::Share share_of(const vrdma_mdev_device_info& info, const DeviceType& type) {
    static_assert(hca::Share::max_weight == VRDMA_MDEV_MAX_WEIGHT);
    const auto written = [&](unsigned value) { return (info.share.set >> value & 1) != 0; };
    const auto& values = info.share.values;
    hca::Share share = type.share;
    if (written(VRDMA_MDEV_SHARE_WEIGHT)) {
        share.weight = static_cast<std::uint32_t>(
            std::clamp<std::uint64_t>(values[VRDMA_MDEV_SHARE_WEIGHT], 1, hca::Share::max_weight));
    }
    if (written(VRDMA_MDEV_SHARE_MAX_BYTES)) {
        share.bytes_per_second = values[VRDMA_MDEV_SHARE_MAX_BYTES];
    }
    if (written(VRDMA_MDEV_SHARE_MAX_OPERATIONS)) {
        share.operations_per_second = values[VRDMA_MDEV_SHARE_MAX_OPERATIONS];
    }
    return share;
}

} // namespace vrdma::mdev
