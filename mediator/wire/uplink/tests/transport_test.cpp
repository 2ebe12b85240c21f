// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/wire/uplink/transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device_end.h"
#include "network.h"

namespace vrdma::wire {
namespace {

class TransportTest : public TwoHosts {
  protected:
    TransportTest() : steering{Steering::create("near").value()} { ip("link set near mtu 1500"); }

    template <typename Kind>
    static bool is(const tl::expected<std::unique_ptr<Uplink>, std::string>& uplink) {
        EXPECT_TRUE(uplink) << uplink.error();
        return dynamic_cast<Kind*>(uplink->get()) != nullptr;
    }

    std::unique_ptr<Steering> steering;
};

TEST_F(TransportTest, EachCanBeForced) {
    EXPECT_TRUE(is<PacketUplink>(open_uplink("near", Transport::af_packet, steering.get())));
    EXPECT_TRUE(is<XdpUplink>(open_uplink("near", Transport::af_xdp, steering.get())));
}

TEST_F(TransportTest, CopiesAreNotChosen) {
    EXPECT_TRUE(is<PacketUplink>(open_uplink("near", Transport::automatic, steering.get())));
}

TEST_F(TransportTest, ForcedItFails) {
    ip("link set near mtu 9000");
    const auto uplink = open_uplink("near", Transport::af_xdp, steering.get());
    ASSERT_FALSE(uplink);
    EXPECT_THAT(uplink.error(),
                testing::ContainsRegex("zero-copy: .*MTU.*native: .*generic: .*MTU"));
}

TEST_F(TransportTest, AfXdpNeedsSteering) {
    EXPECT_FALSE(open_uplink("near", Transport::af_xdp, nullptr));
    EXPECT_TRUE(is<PacketUplink>(open_uplink("near", Transport::automatic, nullptr)));
}

TEST_F(TransportTest, OnlyEthernetIsAnUplink) {
    for (const auto transport : {Transport::automatic, Transport::af_packet, Transport::af_xdp}) {
        EXPECT_FALSE(open_uplink("lo", transport, steering.get()));
    }
}

} // namespace
} // namespace vrdma::wire
