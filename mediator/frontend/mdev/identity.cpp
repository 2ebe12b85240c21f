// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/frontend/mdev/identity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string_view>

namespace vrdma::mdev {

std::string uuid_text(std::span<const std::uint8_t, 16> uuid) {
    std::string text;
    for (std::size_t i = 0; i < uuid.size(); ++i) {
        text += fmt::format("{}{:02x}", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
    }
    return text;
}

verbs::Identity identity_of(const vrdma_mdev_device_info& info, const DeviceType& type) {
    verbs::Identity identity;
    identity.uplink = type.uplink;
    std::ranges::copy(info.mac, identity.mac.begin());
    if (identity.mac == verbs::Mac{}) {
        identity.mac = verbs::derived_mac(info.uuid);
    }
    const std::string_view addresses{info.addresses,
                                     ::strnlen(info.addresses, sizeof(info.addresses))};
    auto prefixes = verbs::parse_prefixes(addresses);
    identity.prefixes_valid = prefixes.has_value();
    if (prefixes) {
        identity.prefixes = std::move(*prefixes);
    }
    return identity;
}

} // namespace vrdma::mdev
