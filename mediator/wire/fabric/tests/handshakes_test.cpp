// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/wire/fabric/handshakes.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include "mediator/base/tests/captured_log.h"
#include "mediator/helper/socket.h"
#include "mediator/helper/tests/looping.h"

namespace vrdma::wire::fabric {
namespace {

using handshakes::Began;
using handshakes::Id;
using handshakes::Message;
using handshakes::News;
using handshakes::Next;
using handshakes::Order;
using handshakes::Piece;
using handshakes::Ready;
using handshakes::Task;
using handshakes::Wrong;
using helper::run_until;

// Records what it is told.
class Recorder final : public HandshakeOwner {
  public:
    void say(Id id, std::span<const std::byte> bytes) override {
        told.push_back(fmt::format("say {} {}", id, bytes.size()));
    }
    void next(Id id) override { told.push_back(fmt::format("next {}", id)); }
    bool admits(Id id, const std::string& name) override {
        told.push_back(fmt::format("asks {} {}", id, name));
        return name == "alpha";
    }
    void done(Id id, const std::string& name, const Secrets& secrets) override {
        told.push_back(fmt::format("done {} {} {}", id, name, secrets.get().client.key[0]));
    }
    void refused(Id id, const std::string& name, const std::string& why) override {
        told.push_back(fmt::format("refused {} {}: {}", id, name, why));
    }
    void lost(Id id) override { told.push_back(fmt::format("lost {}", id)); }

    std::vector<std::string> told;
};

// The test acts as the process.
class HandshakesTest : public testing::Test {
  protected:
    using Told = std::vector<std::string>;

    void SetUp() override {
        auto ends = helper::open_socket_pair();
        ASSERT_TRUE(ends);
        vrdmads = std::move(ends->ours);
        process = std::move(ends->its);
    }
    void TearDown() override { all.reset(); }

    auto open(std::chrono::milliseconds limit = Handshakes::start_limit) {
        return Handshakes::open("test", std::move(vrdmads), task, loop, limit);
    }
    // The reason why open() fails; empty if it does not.
    std::string error(std::chrono::milliseconds limit = Handshakes::start_limit) {
        const auto opened = open(limit);
        return opened ? std::string{} : opened.error();
    }
    void start() {
        say(Began{});
        say(Ready{});
        auto opened = open();
        ASSERT_TRUE(opened) << opened.error();
        all = std::move(*opened);
        all->serve(&owner);
        ASSERT_TRUE(std::holds_alternative<Task>(hear()));
    }
    void say(const Message& message) const {
        ASSERT_EQ(::send(process.get(), message.data(), message.size(), MSG_NOSIGNAL),
                  static_cast<ssize_t>(message.size()));
    }
    void say(const News& news) const { say(pack(news)); }
    // None: there is nothing to be heard now.
    std::optional<Order> hear_now() const {
        Message message(handshakes::max_message);
        const ssize_t size = ::recv(process.get(), message.data(), message.size(), MSG_DONTWAIT);
        if (size <= 0) {
            return std::nullopt;
        }
        message.resize(static_cast<std::size_t>(size));
        auto order = handshakes::read_order(message);
        EXPECT_TRUE(order);
        return order;
    }
    Order hear() {
        run_until(loop, [&] {
            pollfd ready{process.get(), POLLIN, 0};
            return ::poll(&ready, 1, 0) > 0;
        });
        return hear_now().value_or(Order{});
    }
    void await(const Told& told) {
        run_until(loop, [&] { return owner.told.size() >= told.size(); });
        EXPECT_EQ(owner.told, told);
    }
    Id accepting() {
        const auto id = all->accept();
        EXPECT_TRUE(id);
        EXPECT_TRUE(all->hear(*id, hello));
        EXPECT_TRUE(std::holds_alternative<handshakes::Begin>(hear()));
        EXPECT_TRUE(std::holds_alternative<handshakes::Heard>(hear()));
        return id.value_or(0);
    }
    // Waits until vrdmad's end is closed, and expects one line in the log that says so.
    void await_end() {
        run_until(loop, [&] {
            pollfd ready{process.get(), POLLRDHUP, 0};
            return ::poll(&ready, 1, 0) > 0;
        });
        const std::string text = log.str();
        EXPECT_EQ(log.lines(), 1) << text;
        EXPECT_NE(text.find("no new connections are made"), text.npos) << text;
        EXPECT_FALSE(all->accept());
        EXPECT_FALSE(all->connect("beta"));
    }

    const Task task{{"/certificate", "/key", "/ca"}, "here"};
    const std::vector<std::byte> hello = std::vector<std::byte>(5, std::byte{1});
    CapturedLog log;
    EventLoop loop;
    Recorder owner;
    UniqueFd vrdmads;
    UniqueFd process;
    std::unique_ptr<Handshakes> all;
};

// Start with a process that reports an error, says nothing, begins and then says nothing, ends, or
// makes no sense; expect to be told each time, and not to wait for ever.
TEST_F(HandshakesTest, ItIsWrong) {
    say(Began{});
    say(Wrong{"/key: is empty or unreadable"});
    EXPECT_EQ(error(), "/key: is empty or unreadable");
}

TEST_F(HandshakesTest, ItIsSilent) {
    EXPECT_EQ(error(std::chrono::milliseconds{200}), "vrdma-handshake does not answer");
}

TEST_F(HandshakesTest, ItIsSilentLater) {
    say(Began{});
    EXPECT_EQ(error(std::chrono::milliseconds{200}), "vrdma-handshake does not answer");
}

TEST_F(HandshakesTest, ItEnds) {
    say(Began{});
    process = {};
    EXPECT_EQ(error(), "vrdma-handshake does not work");
}

TEST_F(HandshakesTest, ItMakesNoSenseFromTheStart) {
    say(Ready{}); // without a task
    EXPECT_EQ(error(), "vrdma-handshake does not work");
}

TEST_F(HandshakesTest, ItsWorkerDiesBeforeItIsReady) {
    say(Began{});
    say(Began{});
    say(Ready{});
    EXPECT_TRUE(open());
}

TEST_F(HandshakesTest, PathsAreNoLongerThanTheyCanBe) {
    const Task too_long{{std::string(4096, 'c'), "/key", "/ca"}, "here"};
    EXPECT_FALSE(Handshakes::open("test", std::move(vrdmads), too_long, loop));
}

// Connect, and be connected to; expect the messages of each side to be passed on, in turns.
TEST_F(HandshakesTest, Connects) {
    start();
    const auto id = all->connect("beta");
    ASSERT_TRUE(id);
    const Order begin = hear();
    EXPECT_TRUE(std::get<handshakes::Begin>(begin).connects);
    EXPECT_EQ(std::get<handshakes::Begin>(begin).peer, "beta");
    EXPECT_FALSE(all->hear(*id, hello)) << "it is not its turn";
    say(handshakes::Say{{*id, hello}});
    say(Next{*id});
    await({"say 1 5", "next 1"});
    EXPECT_TRUE(all->hear(*id, hello));
    EXPECT_EQ(std::get<handshakes::Heard>(hear()).bytes, hello);
    say(handshakes::Done{*id, "beta", Secrets{vrdma_fabric_secrets{{{9}, {}}, {}}}});
    await({"say 1 5", "next 1", "done 1 beta 9"});
    EXPECT_FALSE(all->hear(*id, hello)) << "it is over";
}

TEST_F(HandshakesTest, IsConnectedTo) {
    start();
    const Id id = accepting();
    say(handshakes::Asks{id, "alpha"});
    EXPECT_TRUE(std::get<handshakes::Admit>(hear()).admitted);
    say(handshakes::Done{id, "alpha", {}});
    await({"asks 1 alpha", "done 1 alpha 0"});
}

TEST_F(HandshakesTest, WhoIsNotAdmitted) {
    start();
    const Id id = accepting();
    say(handshakes::Asks{id, "gamma"});
    EXPECT_FALSE(std::get<handshakes::Admit>(hear()).admitted);
    say(handshakes::Refused{id, "gamma", "is not known"});
    await({"asks 1 gamma", "refused 1 gamma: is not known"});
}

// Forget a handshake while the process sends messages about it; expect the process to be told, and
// not to be heard.
TEST_F(HandshakesTest, WhatIsForgotten) {
    start();
    const Id id = accepting();
    say(handshakes::Say{{id, hello}});
    say(handshakes::Done{id, "alpha", {}});
    all->forget(id);
    EXPECT_EQ(std::get<handshakes::Forget>(hear()).id, id);
    const Id other = accepting();
    say(handshakes::Refused{other, "", "is refused"});
    await({"refused 2 : is refused"});
}

// Let the worker die in the middle of two handshakes; expect both to be lost, the new worker to be
// told the task, and others to begin when it is ready.
TEST_F(HandshakesTest, AWorkerThatDies) {
    start();
    accepting();
    ASSERT_TRUE(all->connect("beta"));
    hear();
    say(Began{});
    await({"lost 1", "lost 2"});
    EXPECT_EQ(std::get<Task>(hear()).files.private_key, "/key");
    EXPECT_FALSE(all->connect("beta")) << "it is not ready";
    say(Ready{});
    run_until(loop, [&] { return all->connect("beta").has_value(); });
    EXPECT_NE(log.str().find("has restarted"), std::string::npos);
}

// Spoil the files while it runs, so that each new worker reports the same error; expect one line in
// the log, and a worker with good files to work again.
TEST_F(HandshakesTest, FilesThatAreSpoilt) {
    start();
    for (int i = 0; i < 3; ++i) {
        say(Began{});
        say(Wrong{"/key: is empty or unreadable"});
        EXPECT_TRUE(std::holds_alternative<Task>(hear()));
    }
    say(Began{});
    say(Ready{});
    run_until(loop, [&] { return all->accept().has_value(); });
    const std::string text = log.str();
    const std::string line = "no connection can be made: /key: is empty or unreadable";
    EXPECT_NE(text.find(line), text.npos) << text;
    EXPECT_EQ(text.find(line), text.rfind(line)) << text;
}

// End; expect all handshakes to be lost, one line in the log, and no new handshake.
TEST_F(HandshakesTest, AProcessThatEnds) {
    start();
    accepting();
    ::shutdown(process.get(), SHUT_WR);
    await({"lost 1"});
    await_end();
}

// Of three handshakes, the process has the first, which was admitted as alpha, and the third, which
// connects to beta. Expect its next message to make no sense.
class NonsenseTest : public HandshakesTest, public testing::WithParamInterface<std::size_t> {
  public:
    static std::vector<News> all_news() {
        return {Ready{},
                Wrong{"anything"},
                Next{0x7777},
                Next{2},
                handshakes::Say{{2, {std::byte{1}}}},
                handshakes::Asks{1, "alpha"},
                handshakes::Asks{3, "beta"},
                handshakes::Done{1, "gamma", {}},
                handshakes::Done{2, "alpha", {}},
                handshakes::Done{3, "alpha", {}},
                handshakes::Refused{3, "alpha", "is wrong"}};
    }
};

TEST_P(NonsenseTest, EndsIt) {
    start();
    ASSERT_EQ(accepting(), 1u);
    ASSERT_EQ(accepting(), 2u);
    say(Next{2});
    say(handshakes::Asks{1, "alpha"});
    EXPECT_TRUE(std::holds_alternative<handshakes::Admit>(hear()));
    ASSERT_TRUE(all->connect("beta"));
    hear();
    await({"next 2", "asks 1 alpha"});
    say(all_news().at(GetParam()));
    await({"next 2", "asks 1 alpha", "lost 1", "lost 2", "lost 3"});
    await_end();
}

INSTANTIATE_TEST_SUITE_P(HandshakesTest, NonsenseTest,
                         testing::Range(std::size_t{0}, NonsenseTest::all_news().size()));

TEST_F(HandshakesTest, WhatIsNoMessage) {
    start();
    say(Message(5));
    await_end();
}

TEST_F(HandshakesTest, AMessageIsNoLargerThanItCanBe) {
    start();
    say(Message(handshakes::max_message + 1));
    await_end();
}

TEST_F(HandshakesTest, NobodyIsDoneWhoWasNotAdmitted) {
    start();
    const Id id = accepting();
    say(handshakes::Asks{id, "gamma"});
    hear();
    say(handshakes::Done{id, "gamma", {}});
    await({"asks 1 gamma", "lost 1"});
    await_end();
}

// Begin as many handshakes as there can be; expect no more, until one is forgotten.
TEST_F(HandshakesTest, SoManyAtMost) {
    start();
    for (std::size_t i = 0; i < Handshakes::max_open; ++i) {
        ASSERT_TRUE(all->connect("beta")) << i;
    }
    EXPECT_FALSE(all->connect("beta"));
    all->forget(1);
    EXPECT_TRUE(all->connect("beta"));
}

// Do not read orders; expect nobody to wait, no bytes beyond the bound to be taken, and a forgotten
// handshake not to be reported at all, if it was not begun.
TEST_F(HandshakesTest, WhoDoesNotListen) {
    start();
    const std::vector<std::byte> much(Piece::most);
    std::vector<Id> passed;
    for (std::optional<Id> id = all->accept(); id && all->hear(*id, much); id = all->accept()) {
        passed.push_back(*id);
    }
    EXPECT_GE(passed.size() * much.size(), Handshakes::max_waiting - much.size());
    EXPECT_LT(passed.size(), Handshakes::max_open / 2);
    for (const Id id : passed) {
        all->forget(id);
    }
    const auto last = all->connect("beta");
    ASSERT_TRUE(last);
    std::size_t begun = 0;
    for (bool found = false; !found; ++begun) {
        const Order order = hear();
        const auto* const begin = std::get_if<handshakes::Begin>(&order);
        found = begin != nullptr && begin->id == *last;
        ASSERT_LT(begun, passed.size());
    }
}

} // namespace
} // namespace vrdma::wire::fabric
