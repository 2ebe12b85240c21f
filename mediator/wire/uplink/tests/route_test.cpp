// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/wire/uplink/route.h"

#include <gtest/gtest.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>

namespace vrdma::wire {
namespace {

constexpr char bridge[] = "bridge";

NetlinkMessage port_of_a_bridge(const char* kind, std::size_t size) {
    NetlinkMessage message{RTM_NEWLINK, 0, ifinfomsg{}};
    message.put(IFLA_MASTER, std::uint32_t{5});
    nlattr* const info = message.begin(IFLA_LINKINFO);
    message.put(IFLA_INFO_SLAVE_KIND, kind, size);
    message.end(info);
    return message;
}

// A route with an interface and a gateway; expect both.
TEST(RouteMessage, IsRead) {
    rtmsg unicast{};
    unicast.rtm_type = RTN_UNICAST;
    NetlinkMessage message{RTM_NEWROUTE, 0, unicast};
    message.put(RTA_OIF, std::uint32_t{3});
    message.put(RTA_GATEWAY, std::array<std::uint8_t, 4>{10, 0, 0, 2});
    const auto route = parse_route(nlmsg_hdr(message.get()));
    ASSERT_TRUE(route);
    EXPECT_EQ(route->link_index, 3);
    EXPECT_EQ(route->type, RTN_UNICAST);
    EXPECT_EQ(route->gateway, (Gid{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 10, 0, 0, 2}));
}

// Parse a message that is shorter than a route, and one whose interface is too short; expect no
// route.
TEST(RouteMessage, WhatIsTooShortIsNone) {
    NetlinkMessage empty{RTM_NEWROUTE, 0, std::uint8_t{}};
    EXPECT_FALSE(parse_route(nlmsg_hdr(empty.get())));
    NetlinkMessage message{RTM_NEWROUTE, 0, rtmsg{}};
    message.put(RTA_OIF, std::uint16_t{3});
    EXPECT_FALSE(parse_route(nlmsg_hdr(message.get())));
}

// Parse a bridge's port, a port of something else, a port whose kind has no end, and a message that
// is too short; expect the bridge of the first, and none of the others.
TEST(LinkMessage, SaysWhoseBridgePortItIs) {
    EXPECT_EQ(parse_bridge(nlmsg_hdr(port_of_a_bridge(bridge, sizeof(bridge)).get())), 5);
    EXPECT_EQ(parse_bridge(nlmsg_hdr(port_of_a_bridge("bond", sizeof("bond")).get())), 0);
    EXPECT_EQ(parse_bridge(nlmsg_hdr(port_of_a_bridge(bridge, sizeof(bridge) - 1).get())), 0);
    NetlinkMessage empty{RTM_NEWLINK, 0, std::uint8_t{}};
    EXPECT_EQ(parse_bridge(nlmsg_hdr(empty.get())), 0);
}

} // namespace
} // namespace vrdma::wire
