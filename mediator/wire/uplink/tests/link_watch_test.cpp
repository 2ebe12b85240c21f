// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/wire/uplink/link_watch.h"

#include <gtest/gtest.h>

#include "network.h"

namespace vrdma::wire {
namespace {

class LinkWatchTest : public TwoHosts {
  protected:
    LinkWatchTest() {
        watch = LinkWatch::create(loop, "near", [this](const Result<Link>& now) {
                    ++changes;
                    link = now;
                    loop.stop();
                }).value();
        link = read_link("near");
    }

    EventLoop loop;
    int changes = 0;
    Result<Link> link = fail(std::errc::no_such_device);
    std::unique_ptr<LinkWatch> watch;
};

TEST_F(LinkWatchTest, ALinkIsRead) {
    ASSERT_TRUE(link);
    EXPECT_GT(link->index, 0);
    EXPECT_EQ(link->mac, (Mac{2, 0, 0, 0, 0, 1}));
    EXPECT_EQ(link->mtu, 9000);
    EXPECT_EQ(link->mbps, 10000); // the speed that a veth reports
    EXPECT_TRUE(link->up);
}

TEST_F(LinkWatchTest, NotEveryLinkSaysHowFastItIs) {
    ip("link add quiet type bridge");
    const auto quiet = read_link("quiet");
    ASSERT_TRUE(quiet);
    EXPECT_EQ(quiet->mbps, 0);
}

TEST_F(LinkWatchTest, ChangesAreTold) {
    ip("link set near mtu 1500");
    ASSERT_TRUE(loop.run());
    EXPECT_EQ(link->mtu, 1500);
    ip("link set near address 02:00:00:00:00:09");
    ASSERT_TRUE(loop.run());
    EXPECT_EQ(link->mac, (Mac{2, 0, 0, 0, 0, 9}));
    EXPECT_EQ(changes, 2);
}

// An interface without a carrier sends nothing, even if it is set up.
TEST_F(LinkWatchTest, TheOtherEndTakesTheCarrierAway) {
    for (const bool up : {false, true}) {
        there.enter();
        ip(up ? "link set far up" : "link set far down");
        here.enter();
        ASSERT_TRUE(loop.run());
        ASSERT_TRUE(link);
        EXPECT_EQ(link->up, up);
    }
}

// Changes of another interface are not reported. The next report is about this one.
TEST_F(LinkWatchTest, OthersChangesAreNot) {
    ip("link add other type veth peer name another");
    ip("link set other mtu 1300");
    ip("link set near mtu 1400");
    ASSERT_TRUE(loop.run());
    EXPECT_EQ(link->mtu, 1400);
    EXPECT_EQ(changes, 1);
}

TEST_F(LinkWatchTest, AnInterfaceGoesAndAnotherComes) {
    const int index = link->index;
    ip("link del near");
    do {
        ASSERT_TRUE(loop.run());
    } while (link); // it goes down first
    EXPECT_EQ(link.error(), std::errc::no_such_device);
    ip("link add other type veth peer name near");
    ASSERT_TRUE(loop.run());
    ASSERT_TRUE(link);
    EXPECT_NE(link->index, index);
}

TEST_F(LinkWatchTest, WhatIsNotThereIsNotWatched) {
    EXPECT_EQ(LinkWatch::create(loop, "none", {}).error(), std::errc::no_such_device);
}

} // namespace
} // namespace vrdma::wire
