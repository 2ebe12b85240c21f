// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/wire/derived_mac.h"

namespace vrdma::wire {
namespace {

constexpr std::uint8_t locally_administered = 2; // the EUI-64 has it inverted

bool is_link_local_eui64(const Gid& gid) {
    constexpr std::array<std::uint8_t, 8> prefix{0xfe, 0x80};
    return std::equal(prefix.begin(), prefix.end(), gid.begin()) && gid[11] == 0xff &&
           gid[12] == 0xfe && ((gid[8] ^ locally_administered) & 1) == 0; // not a group MAC
}

} // namespace

std::optional<Mac> derived_mac(const Gid& gid) {
    if (is_multicast(gid) && is_ipv4(gid)) {
        return Mac{0x01, 0x00, 0x5e, static_cast<std::uint8_t>(gid[13] & 0x7f), gid[14], gid[15]};
    }
    if (is_multicast(gid)) {
        return Mac{0x33, 0x33, gid[12], gid[13], gid[14], gid[15]};
    }
    if (is_link_local_eui64(gid)) {
        return Mac{static_cast<std::uint8_t>(gid[8] ^ locally_administered),
                   gid[9],
                   gid[10],
                   gid[13],
                   gid[14],
                   gid[15]};
    }
    return std::nullopt;
}

} // namespace vrdma::wire
