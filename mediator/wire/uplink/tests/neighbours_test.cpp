// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/wire/uplink/neighbours.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "mediator/wire/tests/gids.h"
#include "network.h"

namespace vrdma::wire {
namespace {

using std::chrono::steady_clock;

constexpr Mac far_mac{2, 0, 0, 0, 0, 2};

// The far host is 10.0.0.2 and fd00::2, the near one 10.0.0.1 and fd00::1.
class NeighboursTest : public TwoHosts {
  protected:
    NeighboursTest() {
        give_addresses("near", 1);
        there.enter();
        give_addresses("far", 2);
        here.enter();
        neighbours = Neighbours::create(loop, "near").value();
    }

    static void give_addresses(const std::string& interface, int host) {
        ip(fmt::format("addr add 10.0.0.{}/24 dev {}", host, interface));
        ip(fmt::format("addr add fd00::{}/64 dev {} nodad", host, interface));
        ip(fmt::format("addr add fe80::{}/64 dev {} nodad", host, interface));
    }

    // An answer from the network comes later than one that the kernel knows.
    struct Answer {
        Result<Mac> mac;
        bool at_once;
    };
    Answer resolve(const std::string& target, const std::string& source = "10.0.0.1") {
        std::optional<Result<Mac>> answer;
        const auto question = neighbours->resolve(gid(source), gid(target), [&](Result<Mac> mac) {
            answer = mac;
            loop.stop();
        });
        const bool at_once = answer.has_value();
        if (!at_once) {
            EXPECT_TRUE(loop.run());
        }
        return {*answer, at_once};
    }

    EventLoop loop;
    std::unique_ptr<Neighbours> neighbours;
};

TEST_F(NeighboursTest, ANeighbourIsAskedOnce) {
    for (const char* target : {"10.0.0.2", "fd00::2"}) {
        const Answer first = resolve(target);
        EXPECT_EQ(first.mac, far_mac) << target;
        EXPECT_FALSE(first.at_once) << target;
        const Answer second = resolve(target);
        EXPECT_EQ(second.mac, far_mac) << target;
        EXPECT_TRUE(second.at_once) << target;
    }
}

TEST_F(NeighboursTest, WhatIsDerivedNeedsNobody) {
    const Answer answer = resolve("fe80::5054:ff:fe12:3456");
    EXPECT_EQ(answer.mac, (Mac{0x52, 0x54, 0, 0x12, 0x34, 0x56}));
    EXPECT_TRUE(answer.at_once);
}

TEST_F(NeighboursTest, ARouterTakesWhatIsFurther) {
    ip("route add 10.9.0.0/16 via 10.0.0.2");
    ip("route add 10.8.0.0/16 via inet6 fd00::2");
    ip("route add default via fd00::2");
    for (const char* target : {"10.9.1.1", "10.8.1.1", "2001:db8::1"}) {
        EXPECT_EQ(resolve(target).mac, far_mac) << target;
    }
}

TEST_F(NeighboursTest, WithoutARouteNobodyIsAsked) {
    ip("route add 10.7.0.0/16 dev lo");
    for (const char* target : {"10.9.1.1", "2001:db8::1", "10.7.1.1", "10.0.0.1", "fd00::1"}) {
        const Answer answer = resolve(target);
        EXPECT_FALSE(answer.mac) << target;
        EXPECT_TRUE(answer.at_once) << target;
        // The kernel itself may have heard of other addresses.
        EXPECT_EQ(output_of(std::string{"ip neigh show dev near to "} + target), "");
    }
}

// A device may have such an address, which is not the host's.
TEST_F(NeighboursTest, TheSourceMayBeUnknownToTheHost) {
    EXPECT_EQ(resolve("10.0.0.2", "10.0.0.77").mac, far_mac);
    EXPECT_EQ(resolve("fd00::2", "fd00::77").mac, far_mac);
}

TEST_F(NeighboursTest, ABridgesPortHasTheBridgesAddresses) {
    ip("addr flush dev near");
    ip("link add br0 type bridge");
    set_up("br0");
    ip("link set near master br0");
    wait_until_up("br0");
    give_addresses("br0", 1);
    EXPECT_EQ(resolve("10.0.0.2").mac, far_mac);
    EXPECT_EQ(resolve("fd00::2").mac, far_mac);
}

// The kernel asks three times; then the far host has the address, and is asked anew.
TEST_F(NeighboursTest, SilenceEndsAndIsForgotten) {
    const auto start = steady_clock::now();
    EXPECT_EQ(resolve("10.0.0.3").mac.error(), std::errc::host_unreachable);
    EXPECT_LT(steady_clock::now() - start, Neighbours::answer_timeout + std::chrono::seconds{5});
    there.enter();
    ip("addr add 10.0.0.3/24 dev far");
    here.enter();
    EXPECT_EQ(resolve("10.0.0.3").mac, far_mac);
}

// The kernel asks for longer than any question waits.
TEST_F(NeighboursTest, PatienceEnds) {
    ip("ntable change name arp_cache dev near mcast_probes 100 > /dev/null");
    const auto start = steady_clock::now();
    EXPECT_EQ(resolve("10.0.0.3").mac.error(), std::errc::host_unreachable);
    EXPECT_GE(steady_clock::now() - start, Neighbours::answer_timeout);
    EXPECT_NE(output_of("ip neigh show 10.0.0.3").find("INCOMPLETE"), std::string::npos);
}

TEST_F(NeighboursTest, AnOldAnswerIsUsedAndVerified) {
    ip("neigh replace 10.0.0.2 lladdr 02:00:00:00:00:77 nud stale dev near");
    const Answer answer = resolve("10.0.0.2");
    EXPECT_EQ(answer.mac, (Mac{2, 0, 0, 0, 0, 0x77}));
    EXPECT_TRUE(answer.at_once);
    EXPECT_EQ(output_of("ip neigh show 10.0.0.2").find("STALE"), std::string::npos);
}

TEST_F(NeighboursTest, WhatTheHostLearnsCounts) {
    ip("neigh replace 10.0.0.2 lladdr 02:00:00:00:00:77 nud permanent dev near");
    EXPECT_EQ(resolve("10.0.0.2").mac, (Mac{2, 0, 0, 0, 0, 0x77}));
    ip("neigh replace 10.0.0.2 lladdr 02:00:00:00:00:78 nud permanent dev near");
    EXPECT_EQ(resolve("10.0.0.2").mac, (Mac{2, 0, 0, 0, 0, 0x78}));
}

// Three questions wait for one neighbour. The first receiver ends the second question, and asks
// again.
TEST_F(NeighboursTest, ReceiversMayAskAndEndQuestions) {
    const Gid source = gid("10.0.0.1");
    const Gid target = gid("10.0.0.3");
    std::vector<int> told;
    Neighbours::Question second;
    const auto first = neighbours->resolve(source, target, [&](Result<Mac> mac) {
        EXPECT_EQ(mac, far_mac);
        told.push_back(1);
        second = {};
        (void)neighbours->resolve(source, target, [&](Result<Mac>) { told.push_back(4); });
    });
    second = neighbours->resolve(source, target, [&](Result<Mac>) { told.push_back(2); });
    const auto third = neighbours->resolve(source, target, [&](Result<Mac>) {
        told.push_back(3);
        loop.stop();
    });
    EXPECT_TRUE(told.empty());
    ip("neigh replace 10.0.0.3 lladdr 02:00:00:00:00:02 nud permanent dev near");
    ASSERT_TRUE(loop.run());
    EXPECT_EQ(told, (std::vector{1, 4, 3}));
}

TEST_F(NeighboursTest, OnlySoManyWait) {
    std::vector<Neighbours::Question> questions;
    const auto ask = [&](Neighbours::Receiver receiver) {
        questions.push_back(
            neighbours->resolve(gid("10.0.0.1"), gid("10.0.0.3"), std::move(receiver)));
    };
    for (std::size_t i = 0; i < Neighbours::max_waiting; ++i) {
        ask([](Result<Mac> mac) { FAIL() << mac.has_value(); });
    }
    std::optional<Result<Mac>> answer;
    ask([&](Result<Mac> mac) { answer = mac; });
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->error(), std::errc::resource_unavailable_try_again);
    questions.clear();
    EXPECT_EQ(resolve("10.0.0.2").mac, far_mac);
}

TEST_F(NeighboursTest, AnInterfaceThatIsDownLeadsNowhere) {
    ip("link set near down");
    EXPECT_EQ(resolve("10.0.0.2").mac.error(), std::errc::network_unreachable);
    EXPECT_EQ(Neighbours::create(loop, "none").error(), std::errc::no_such_device);
}

} // namespace
} // namespace vrdma::wire
