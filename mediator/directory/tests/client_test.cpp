// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/directory/client.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include "mediator/base/tests/captured_log.h"
#include "mediator/helper/socket.h"
#include "mediator/helper/tests/looping.h"

namespace vrdma::directory {
namespace {

using helper::run_until;

// The test acts as the process.
class ClientTest : public testing::Test {
  protected:
    void SetUp() override {
        auto ends = helper::open_socket_pair();
        ASSERT_TRUE(ends);
        process = std::move(ends->its);
        client = Client::open(
                     "test", std::move(ends->ours), task, loop,
                     [this](const Hosts& all) {
                         hosts = all;
                         ++times;
                     },
                     timeout)
                     .value();
    }
    void TearDown() override {
        process = {}; // or the client would wait for it
        client.reset();
    }

    void say(const Message& message) const {
        ASSERT_EQ(::send(process.get(), message.data(), message.size(), MSG_NOSIGNAL),
                  static_cast<ssize_t>(message.size()));
    }
    void say(const News& news) const { say(pack(news)); }
    Order hear() {
        Message message(max_message);
        run_until(loop, [&] {
            pollfd ready{process.get(), POLLIN, 0};
            return ::poll(&ready, 1, 0) > 0;
        });
        const ssize_t size = ::recv(process.get(), message.data(), message.size(), MSG_DONTWAIT);
        EXPECT_GT(size, 0);
        message.resize(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
        const auto order = read_order(message);
        EXPECT_TRUE(order);
        return order.value_or(Repeat{});
    }
    // The client has closed its end.
    bool ended() const {
        pollfd ready{process.get(), POLLRDHUP, 0};
        return ::poll(&ready, 1, 0) > 0;
    }
    void await_end() {
        run_until(loop, [&] { return ended(); });
        const std::string text = log.str();
        EXPECT_EQ(log.lines(), 1) << text;
        EXPECT_NE(text.find("vrdma-directory is lost"), text.npos) << text;
    }
    void await_hosts(int count) {
        run_until(loop, [&] { return times == count; });
    }
    static Entry entry(const Claims& claims = {}, const char* host = "10.0.0.1") {
        return {{host, "7471"}, claims};
    }

    static constexpr Gid one{0xfd, 1};
    static constexpr Gid two{0xfd, 2};
    const Task task{{{{false, "127.0.0.1", 2379}}, "", "", ""}, "/vrdma/", "alpha", {"::1", "1"}};
    CapturedLog log;
    EventLoop loop;
    UniqueFd process;
    std::unique_ptr<Client> client;
    Hosts hosts;
    int times = 0;
    std::chrono::milliseconds timeout = Client::begin_limit;
};

// Begin; expect the task and the addresses, and later changes, in order.
TEST_F(ClientTest, TellsWhatIsToBeDone) {
    client->set({one});
    client->set({one, two});
    say(Began{});
    const Order first = hear();
    ASSERT_TRUE(std::holds_alternative<Task>(first));
    EXPECT_EQ(std::get<Task>(first).prefix, "/vrdma/");
    EXPECT_EQ(std::get<Addresses>(hear()).gids, (std::set<Gid>{one, two}));
    client->set({});
    EXPECT_EQ(std::get<Addresses>(hear()).gids, std::set<Gid>{});
    client->repeat();
    EXPECT_TRUE(std::holds_alternative<Repeat>(hear()));
}

// Let hosts come, change and go; expect a roster when it is complete, in which an unchanged host is
// the same object.
TEST_F(ClientTest, HostsComeChangeAndGo) {
    say(Began{});
    say(Here{"alpha", entry()});
    say(Here{"beta", entry({{one, 1}})});
    say(Complete{});
    await_hosts(1);
    ASSERT_EQ(hosts.size(), 2u);
    const auto alpha = hosts.at("alpha");
    EXPECT_EQ(*hosts.at("beta"), entry({{one, 1}}));
    say(Here{"beta", entry({{two, 2}})});
    say(Complete{});
    await_hosts(2);
    EXPECT_EQ(hosts.at("alpha"), alpha);
    EXPECT_EQ(*hosts.at("beta"), entry({{two, 2}}));
    say(Gone{"beta"});
    say(Complete{});
    await_hosts(3);
    EXPECT_EQ(hosts.size(), 1u);
}

// Begin anew in the middle of a roster; expect the old one until the new one is complete, in which
// an unchanged host is the same object.
TEST_F(ClientTest, AWorkerBeginsAnew) {
    say(Began{});
    say(Here{"alpha", entry()});
    say(Here{"beta", entry()});
    say(Complete{});
    await_hosts(1);
    const auto alpha = hosts.at("alpha");
    say(Gone{"alpha"});
    say(Began{});
    for (int i = 0; i < 2; ++i) {
        EXPECT_TRUE(std::holds_alternative<Task>(hear()));
        EXPECT_TRUE(std::holds_alternative<Addresses>(hear()));
    }
    EXPECT_EQ(hosts.size(), 2u);
    say(Here{"alpha", entry()});
    say(Complete{});
    await_hosts(2);
    EXPECT_EQ(hosts, (Hosts{{"alpha", alpha}}));
}

// End; expect a line in the log, and the known hosts to stay known.
TEST_F(ClientTest, AProcessThatEndsIsLogged) {
    say(Began{});
    say(Here{"alpha", entry()});
    say(Complete{});
    await_hosts(1);
    process = {};
    run_until(loop, [&] { return !log.str().empty(); });
    EXPECT_NE(log.str().find("it has ended"), std::string::npos);
    EXPECT_EQ(hosts.size(), 1u);
    client->set({one});
    client->repeat();
}

class ImpatientClientTest : public ClientTest {
  protected:
    ImpatientClientTest() { timeout = std::chrono::milliseconds{20}; }

    auto lines() const {
        const std::string text = log.str();
        return std::ranges::count(text, '\n');
    }
    void wait() {
        bool over = false;
        const auto end = loop.after(5 * timeout, [&] { over = true; });
        run_until(loop, [&] { return over; });
    }
};

// Do not begin; expect one line in the log that says so. Then begin; expect to be served.
TEST_F(ImpatientClientTest, WhoDoesNotBeginIsLoggedOnce) {
    wait();
    EXPECT_NE(log.str().find("has not started"), std::string::npos);
    EXPECT_EQ(lines(), 1);
    say(Began{});
    EXPECT_TRUE(std::holds_alternative<Task>(hear()));
}

// Begin in time; expect no line.
TEST_F(ImpatientClientTest, WhoBeginsIsNotLogged) {
    say(Began{});
    EXPECT_TRUE(std::holds_alternative<Task>(hear()));
    wait();
    EXPECT_EQ(lines(), 0);
}

// Send a message that makes no sense, or at the wrong time; expect the end, and one line.
TEST_F(ClientTest, NonsenseEndsIt) {
    say(Began{});
    say(Message(5));
    await_end();
    EXPECT_EQ(times, 0);
}

TEST_F(ClientTest, WhoHasNotBegunKnowsNothing) {
    say(Complete{});
    await_end();
    EXPECT_EQ(times, 0);
}

TEST_F(ClientTest, NobodyGoesWhoIsNotThere) {
    say(Began{});
    say(Gone{"alpha"});
    await_end();
}

TEST_F(ClientTest, AMessageIsNoLargerThanItCanBe) {
    say(Began{});
    say(Message(max_message + 1));
    await_end();
}

// Name more hosts than there can be, and more addresses; expect the end each time.
TEST_F(ClientTest, SoManyHostsAtMost) {
    say(Began{});
    for (std::size_t i = 0; i < max_hosts; ++i) {
        say(Here{"host-" + std::to_string(i), entry()});
        if (i % 64 == 0) {
            say(Complete{});
            await_hosts(static_cast<int>(i / 64 + 1));
        }
    }
    say(Here{"host-0", entry({{one, 1}})}); // no further host
    say(Complete{});
    await_hosts(17);
    EXPECT_FALSE(ended());
    say(Here{"one-more", entry()});
    await_end();
    EXPECT_EQ(hosts.size(), max_hosts);
}

TEST_F(ClientTest, SoManyAddressesAtMost) {
    Claims claims;
    for (unsigned i = 0; i < Entry::max_gids; ++i) {
        claims[{0xfd, static_cast<std::uint8_t>(i >> 8), static_cast<std::uint8_t>(i)}] = 1;
    }
    say(Began{});
    constexpr int full = max_gids_of_all / Entry::max_gids;
    for (int i = 0; i < full; ++i) {
        say(Here{"host-" + std::to_string(i), entry(claims)});
        say(Complete{});
        await_hosts(i + 1);
    }
    EXPECT_FALSE(ended());
    say(Here{"one-more", entry({{one, 1}})});
    await_end();
    EXPECT_EQ(hosts.size(), static_cast<std::size_t>(full));
}

// Write any number of lines; expect the log to stay small.
TEST_F(ClientTest, CannotFloodTheLog) {
    for (int i = 0; i < 1000; ++i) {
        say(Said{Said::Level::warn, "much"});
        if (i % 50 == 0) {
            client->repeat();
            run_until(loop, [] { return true; });
        }
    }
    say(Began{});
    hear();
    const std::string text = log.str();
    EXPECT_LT(std::ranges::count(text, '\n'), 500);
}

// Do not read orders; expect them to come later, and only the last of each kind.
TEST_F(ClientTest, WhoDoesNotListenIsToldLater) {
    say(Began{});
    std::set<Gid> gids;
    for (unsigned i = 0; i < Entry::max_gids; ++i) {
        gids.insert({0xfd, static_cast<std::uint8_t>(i >> 8), static_cast<std::uint8_t>(i)});
    }
    ASSERT_TRUE(std::holds_alternative<Task>(hear()));
    for (int i = 0; i < 100; ++i) { // more than a socket holds
        client->set(gids);
    }
    client->set({one});
    std::set<Gid> last;
    for (int i = 0; i < 100 && last != std::set<Gid>{one}; ++i) {
        last = std::get<Addresses>(hear()).gids;
    }
    EXPECT_EQ(last, std::set<Gid>{one});
}

} // namespace
} // namespace vrdma::directory
