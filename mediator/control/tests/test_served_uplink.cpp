// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include <gtest/gtest.h>

#include "mediator/control/served_uplink.h"
#include "mediator/tests/guest/guest.h"
#include "mediator/wire/uplink/tests/network.h"

namespace vrdma::control {
namespace {

using wire::ip;

// A device that is bound to the near end of a cable.
class ServedUplinkTest : public wire::TwoHosts {
  protected:
    ServedUplinkTest() : served{ServedUplink::open({"lan", "near"}, *hca, loop).value()} {}

    static std::unique_ptr<hca::soft::SoftHca> make_hca() {
        hca::soft::Config config;
        config.threads = false;
        return hca::soft::SoftHca::create(config).value();
    }

    // Events that are there, or come soon.
    void serve() {
        std::this_thread::sleep_for(std::chrono::milliseconds{10});
        const auto stop = loop.watch(wake.fd(), [&](std::uint32_t) { loop.stop(); });
        wake.signal();
        ASSERT_TRUE(loop.run());
    }
    // The kernel tells of a link in its own time.
    void await(bool up) {
        for (int i = 0; i < 1000 && guest.slice().port_up() != up; ++i) {
            serve();
        }
        EXPECT_EQ(guest.slice().port_up(), up);
    }

    EventLoop loop;
    EventFd wake = EventFd::create().value();
    std::unique_ptr<hca::soft::SoftHca> hca = make_hca();
    std::unique_ptr<ServedUplink> served;
    test::Guest guest{*hca, "guest", test::ipv4_gid(1), test::Guest::default_memory(), {}, "lan"};
};

TEST_F(ServedUplinkTest, HasTheInterfacesMac) {
    EXPECT_EQ(served->name(), "lan");
    EXPECT_EQ(served->mac(), (wire::Mac{2, 0, 0, 0, 0, 1}));
}

TEST_F(ServedUplinkTest, ThePortFollowsTheInterface) {
    await(true);
    for (const bool up : {false, true}) {
        ip(up ? "link set near up" : "link set near down");
        await(up);
    }
}

TEST_F(ServedUplinkTest, ThePortFollowsTheCarrier) {
    for (const bool up : {false, true}) {
        there.enter();
        ip(up ? "link set far up" : "link set far down");
        here.enter();
        await(up);
    }
}

TEST_F(ServedUplinkTest, ThePortsMtuIsTheInterfaces) {
    EXPECT_EQ(guest.slice().max_mtu(), IBV_MTU_4096);
    ip("link set near mtu 1500");
    for (int i = 0; i < 1000 && guest.slice().max_mtu() != IBV_MTU_1024; ++i) {
        serve();
    }
    EXPECT_EQ(guest.slice().max_mtu(), IBV_MTU_1024);
}

// Whose name another interface takes; expect the port to stay down.
TEST_F(ServedUplinkTest, AnotherInterfaceIsNotItsOwn) {
    ip("link del near");
    await(false);
    ip("link add near type veth peer name another");
    ip("link set another up");
    ip("link set near up");
    wait_until_up("near");
    serve();
    EXPECT_FALSE(guest.slice().port_up());
}

} // namespace
} // namespace vrdma::control
