// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Hosts that connect, and what their uplinks do with each other's frames.
#include "hosts.h"

namespace vrdma::wire::fabric {
namespace {

// Hosts alpha, beta and gamma; to each its peers are 0 and 1, in that order.
class LinksTest : public FabricTest {
  protected:
    static constexpr unsigned hosts = 3;

    std::unique_ptr<Host> start(unsigned n, std::uint8_t key = 1) {
        auto host =
            std::make_unique<Host>(LinkOptions{names[n], names[n], addresses[n], "tcp"}, loop);
        unsigned number = 0;
        for (unsigned peer = 0; peer < hosts; ++peer) {
            if (peer != n) {
                host->add(number++, {names[peer], addresses[peer], key_of(key)},
                          {gid_of(static_cast<std::uint8_t>(peer + 1))});
            }
        }
        return host;
    }
    void connect(Host& left, unsigned right_number, Host& right, unsigned left_number) {
        until([&] { return left.has(right_number) && right.has(left_number); }, {&left, &right});
        // Both pollers have it, too.
        pass(std::chrono::milliseconds{20}, {&left, &right});
    }
    static Frame as_received(Frame frame, unsigned peer) {
        store(std::span{frame}, 6, mac_of(peer));
        return frame;
    }

    const std::array<std::string, hosts> names{"alpha", "beta", "gamma"};
    const std::array<Address, hosts> addresses{free_address(), free_address(), free_address()};
};

TEST_F(LinksTest, FramesGoBothWays) {
    const auto alpha = start(0);
    const auto beta = start(1);
    connect(*alpha, 0, *beta, 0);
    std::vector<Frame> expected;
    for (std::size_t size = 60; size <= max_frame_size; size += 52) {
        const Frame frame = frame_from(1, size, static_cast<int>(size));
        ASSERT_TRUE(alpha->send(mac_of(0), frame));
        expected.push_back(as_received(frame, 0));
        until([&] { return beta->got.size() == expected.size(); }, {beta.get()});
    }
    EXPECT_EQ(beta->got, expected);
    ASSERT_TRUE(beta->send(mac_of(0), frame_from(2)));
    until([&] { return !alpha->got.empty(); }, {alpha.get()});
    EXPECT_EQ(alpha->got, std::vector<Frame>{as_received(frame_from(2), 0)});
}

TEST_F(LinksTest, FramesWithoutAWayAreLost) {
    const auto alpha = start(0);
    for (const Mac& mac : {mac_of(0), mac_of(77), mac_of(Handover::max_peers), Mac{}, Mac{1}}) {
        EXPECT_TRUE(alpha->send(mac, frame_from(1)));
    }
    EXPECT_TRUE(alpha->uplink->knows(mac_of(0)));
    EXPECT_TRUE(alpha->uplink->knows(Mac{0x01, 0, 0x5e}));
    EXPECT_FALSE(alpha->uplink->knows(Mac{2, 0, 0, 0, 0, 1})) << "a guest's kernel may know it";
}

TEST_F(LinksTest, FramesToAGroupGoToAll) {
    const auto alpha = start(0);
    const auto beta = start(1);
    const auto gamma = start(2);
    connect(*alpha, 0, *beta, 0);
    connect(*alpha, 1, *gamma, 0);
    ASSERT_TRUE(alpha->send(Mac{0x01, 0, 0x5e, 1, 2, 3}, frame_from(1)));
    until([&] { return !beta->got.empty() && !gamma->got.empty(); }, {beta.get(), gamma.get()});
}

TEST_F(LinksTest, APeerSpeaksForItselfOnly) {
    const auto alpha = start(0);
    const auto beta = start(1);
    connect(*alpha, 0, *beta, 0);
    Frame no_address(20);
    Frame other_protocol = frame_from(1);
    store(std::span{other_protocol}, 12, htons(ETHERTYPE_ARP));
    for (const Frame& frame : {frame_from(3), no_address, other_protocol, frame_from(1)}) {
        ASSERT_TRUE(alpha->send(mac_of(0), frame));
    }
    until([&] { return !beta->got.empty(); }, {beta.get()});
    EXPECT_EQ(beta->got, std::vector<Frame>{as_received(frame_from(1), 0)});
}

TEST_F(LinksTest, AnAddressBecomesAnothers) {
    const auto alpha = start(0);
    const auto beta = start(1);
    connect(*alpha, 0, *beta, 0);
    std::vector<Gid> gids{gid_of(3), gid_of(5)};
    beta->uplink->swap_gids(0, gids);
    EXPECT_EQ(gids, std::vector<Gid>{gid_of(1)});
    for (const std::uint8_t n : {1, 5}) {
        ASSERT_TRUE(alpha->send(mac_of(0), frame_from(n)));
    }
    until([&] { return !beta->got.empty(); }, {beta.get()});
    EXPECT_EQ(beta->got, std::vector<Frame>{as_received(frame_from(5), 0)});

    alpha->uplink->renew_mac_of(0);
    EXPECT_FALSE(alpha->uplink->knows(mac_of(0)));
    const Mac mac = alpha->uplink->present_mac_of(0);
    EXPECT_TRUE(alpha->uplink->knows(mac));
    EXPECT_TRUE(alpha->uplink->knows(mac_of(1)));
    ASSERT_TRUE(alpha->send(mac_of(0), frame_from(3, 60)));
    ASSERT_TRUE(alpha->send(mac, frame_from(3)));
    until([&] { return beta->got.size() == 2; }, {beta.get()});
    EXPECT_EQ(beta->got.back().size(), frame_from(3).size()) << "the first was lost";
}

TEST_F(LinksTest, PeersComeAndGo) {
    const auto alpha = start(0);
    const auto beta = start(1);
    const auto gamma = start(2);
    connect(*alpha, 0, *beta, 0);
    for (const Host* const host : {alpha.get(), beta.get()}) {
        host->links->remove(0);
    }
    until([&] { return !alpha->has(0) && !beta->has(0); }, {alpha.get(), beta.get()});
    // Gamma takes beta's number, and beta another, where it is not at first.
    alpha->links->remove(1);
    alpha->add(0, {"gamma", addresses[2], key_of(1)}, {gid_of(3)});
    alpha->add(7, {"beta", free_address(), key_of(1)}, {gid_of(2)});
    beta->add(9, {"alpha", addresses[0], key_of(1)}, {gid_of(1)});
    connect(*alpha, 0, *gamma, 0);
    alpha->links->move(7, addresses[1]);
    connect(*alpha, 7, *beta, 9);
    ASSERT_TRUE(beta->send(mac_of(9), frame_from(2)));
    until([&] { return !alpha->got.empty(); }, {alpha.get()});
    EXPECT_EQ(alpha->got, std::vector<Frame>{as_received(frame_from(2), 7)});
}

// While they are making sure of each other.
TEST_F(LinksTest, APeerGoesInTheMiddle) {
    const auto alpha = start(0);
    const auto beta = start(1);
    pass(Links::first_pause + Links::tick, {});
    alpha->links->remove(0);
    beta->links->remove(0);
    pass(std::chrono::milliseconds{300}, {alpha.get(), beta.get()});
    EXPECT_FALSE(alpha->has(0));
    EXPECT_FALSE(beta->has(0));
}

TEST_F(LinksTest, WhoHasAnotherKeyDoesNotConnect) {
    const auto alpha = start(0, 2);
    const auto beta = start(1);
    const auto gamma = start(2);
    connect(*beta, 1, *gamma, 1);
    pass(std::chrono::milliseconds{500}, {alpha.get(), beta.get()});
    EXPECT_FALSE(alpha->has(0));
    EXPECT_FALSE(beta->has(0));
}

TEST_F(LinksTest, AConnectionThatBreaksIsMadeAnew) {
    const auto alpha = start(0);
    auto beta = start(1);
    connect(*alpha, 0, *beta, 0);
    beta.reset();
    until([&] { return !alpha->has(0); }, {alpha.get()});
    EXPECT_TRUE(alpha->send(mac_of(0), frame_from(1)));
    beta = start(1);
    connect(*alpha, 0, *beta, 0);
    ASSERT_TRUE(alpha->send(mac_of(0), frame_from(1)));
    until([&] { return !beta->got.empty(); }, {beta.get()});
}

// Its frames wait, bounded; others' do not. When it reads again there is room again, and the fd
// has told.
TEST_F(LinksTest, APeerThatStopsReading) {
    const auto alpha = start(0);
    const auto beta = start(1);
    const auto gamma = start(2);
    connect(*alpha, 0, *beta, 0);
    connect(*alpha, 1, *gamma, 0);
    const Frame frame = frame_from(1, max_frame_size);
    std::size_t sent = 0;
    constexpr std::size_t most = 100'000; // 400 MB
    while (sent < most && alpha->send(mac_of(0), frame)) {
        ++sent;
    }
    ASSERT_LT(sent, most);
    ASSERT_TRUE(alpha->send(mac_of(1), frame_from(1)));
    until([&] { return !gamma->got.empty(); }, {gamma.get()});

    // Beta alone is polled, until alpha's fd says that there is something.
    alpha->poll();
    const auto has_room = [&] { return !alpha->uplink->prepare(mac_of(0)).empty(); };
    ASSERT_FALSE(has_room());
    until([&] { return beta->got.size() > sent / 2; }, {beta.get()});
    until(has_room, {alpha.get(), beta.get()});
    until([&] { return beta->got.size() == sent; }, {alpha.get(), beta.get()});
    EXPECT_EQ(beta->got.back(), as_received(frame, 0));
}

// Somebody by hand, who is authentic as far as `name` and `key` are, and connects to beta.
class IntruderTest : public LinksTest {
  protected:
    IntruderTest() : beta{start(1)} {}

    // Whether beta takes it for what it says.
    bool enter(const std::string& name, std::uint8_t key) {
        connection = *Connection::connect(*info_to("tcp", addresses[1]));
        const Key secret = key_of(key);
        auto handshake = Handshake::connect(name, "beta", secret);
        until([&] { return connection->next_event() == Connection::Event::connected; },
              {beta.get()});
        say(handshake.hello());
        until(
            [&] {
                connection->poll();
                const Frame answer = handshake.receive(connection->receive());
                connection->release();
                if (!answer.empty()) {
                    say(answer);
                }
                return handshake.state() != Handshake::State::open || connection->failed();
            },
            {beta.get()});
        if (handshake.state() == Handshake::State::done) {
            until([&] { return beta->has(0); }, {beta.get()});
        }
        return handshake.state() == Handshake::State::done;
    }
    void say(const Frame& frame) {
        const auto room = connection->prepare();
        std::memcpy(room.data(), frame.data(), frame.size());
        connection->commit(frame.size());
        connection->flush();
    }
    bool put_out() {
        connection->poll();
        return connection->failed();
    }

    std::unique_ptr<Host> beta;
    std::unique_ptr<Connection> connection;
};

TEST_F(IntruderTest, WhoKnowsTheKeyIsLetIn) {
    EXPECT_TRUE(enter("alpha", 1));
    say(frame_from(1));
    until([&] { return !beta->got.empty(); }, {beta.get()});
}

TEST_F(IntruderTest, StrangersArePutOut) {
    EXPECT_FALSE(enter("delta", 1)) << "no such name";
    EXPECT_FALSE(enter("gamma", 1)) << "beta connects to gamma";
    EXPECT_FALSE(enter("alpha", 2)) << "another key";
    EXPECT_FALSE(beta->has(0));
}

TEST_F(IntruderTest, WhatMakesNoSenseEndsTheConnection) {
    ASSERT_TRUE(enter("alpha", 1));
    say(Frame(smallest_frame - 1));
    until([&] { return put_out() && !beta->has(0); }, {beta.get()});
    EXPECT_TRUE(enter("alpha", 1)) << "and it may come again";
}

TEST_F(IntruderTest, FramesBeforeTheProofAreNoFrames) {
    connection = *Connection::connect(*info_to("tcp", addresses[1]));
    until([&] { return connection->next_event() == Connection::Event::connected; }, {beta.get()});
    say(frame_from(1));
    until([&] { return put_out(); }, {beta.get()});
    EXPECT_TRUE(beta->got.empty());
}

TEST_F(IntruderTest, WhoSaysNothingIsPutOut) {
    ASSERT_TRUE(enter("alpha", 1));
    until([&] { return !beta->has(0); }, {beta.get()});
    connection = *Connection::connect(*info_to("tcp", addresses[1]));
    until([&] { return connection->next_event() == Connection::Event::connected; }, {beta.get()});
    until([&] { return put_out(); }, {beta.get()});
}

TEST_F(IntruderTest, SoManyStrangersAtATime) {
    std::vector<std::unique_ptr<Connection>> crowd;
    unsigned refused = 0;
    unsigned let_in = 0;
    for (std::size_t i = 0; i <= Links::max_strangers; ++i) {
        Connection& one = *crowd.emplace_back(*Connection::connect(*info_to("tcp", addresses[1])));
        auto event = Connection::Event::none;
        until([&] { return (event = one.next_event()) != Connection::Event::none; }, {beta.get()});
        ++(event == Connection::Event::connected ? let_in : refused);
    }
    EXPECT_LE(let_in, Links::max_strangers);
    EXPECT_GE(refused, 1u);
}

} // namespace
} // namespace vrdma::wire::fabric
