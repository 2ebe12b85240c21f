// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// An interface with the addresses of a device, to which the frames of frames.h go.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "mediator/wire/uplink/packet_uplink.h"
#include "mediator/wire/uplink/steering.h"
#include "mediator/wire/uplink/xdp_uplink.h"

namespace vrdma::wire {

inline constexpr Mac device_mac{2, 0, 0, 0, 0, 2};
inline constexpr std::uint16_t device_vlan = 5;
inline constexpr Gid ipv6_gid{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2};
inline constexpr Gid link_local_gid{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2};

inline Gid ipv4_gid(int last_byte) {
    return {0, 0, 0,    0,    0,  0, 0, 0,
            0, 0, 0xff, 0xff, 10, 0, 0, static_cast<std::uint8_t>(last_byte)};
}

inline std::unique_ptr<Steering> steer_to_device(const std::string& interface) {
    auto steering = Steering::create(interface).value();
    EXPECT_TRUE(steering->add({ipv4_gid(2), device_mac}));
    EXPECT_TRUE(steering->add({ipv6_gid, device_mac}));
    EXPECT_TRUE(steering->add({link_local_gid, device_mac, Encapsulation::roce_v1}));
    EXPECT_TRUE(steering->add({ipv4_gid(2), device_mac, Encapsulation::roce_v2, 0, device_vlan}));
    return steering;
}

inline std::unique_ptr<XdpUplink> open_xdp(const std::string& interface, XdpUplink::Mode mode,
                                           const Steering& steering) {
    auto uplink = XdpUplink::create(interface, mode, steering);
    EXPECT_TRUE(uplink) << uplink.error();
    return std::move(uplink.value());
}

} // namespace vrdma::wire
