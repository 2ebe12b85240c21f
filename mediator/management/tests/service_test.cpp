// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// vrdmad's end of the socket, with a process that asks what it must not.
#include "mediator/management/service.h"

#include <sys/socket.h>

#include "fake_mediator.h"
#include "mediator/base/tests/captured_log.h"
#include "mediator/helper/tests/looping.h"
#include "mediator/management/asker.h"

namespace vrdma::management {
namespace {

class ServiceTest : public testing::Test {
  protected:
    ServiceTest() {
        auto ends = helper::open_socket_pair();
        EXPECT_TRUE(ends);
        process = std::move(ends->its);
        service =
            Service::open(std::move(ends->ours), {process.get()}, Task{}, mediator, loop).value();
    }
    // Has the service read the bytes as a message, and expects it to end the connection.
    void expect_end_after(std::string_view bytes) {
        EXPECT_EQ(::send(process.get(), bytes.data(), bytes.size(), 0),
                  static_cast<ssize_t>(bytes.size()));
        helper::run_until(loop, [&] { return log.lines() > 0; });
        EXPECT_EQ(log.str(),
                  "warning control socket: nothing is served there any more: the process that "
                  "serves it: it sent an invalid message\n");
        EXPECT_EQ(::send(process.get(), "", 1, MSG_NOSIGNAL), -1);
    }

    CapturedLog log;
    FakeMediator mediator{3};
    EventLoop loop;
    UniqueFd process;
    std::unique_ptr<Service> service;
};

TEST_F(ServiceTest, AProcessThatSaysTooLittleIsNotHeardAnyMore) {
    expect_end_after("ab");
}

TEST_F(ServiceTest, AProcessThatSaysTooMuchIsNotHeardAnyMore) {
    expect_end_after(std::string(sizeof(Question) + 1, '\0'));
}

// Ask without reading the answers, until the socket is full. Expect the control thread not to wait.
TEST_F(ServiceTest, AProcessThatDoesNotReadIsNotAwaited) {
    Question question{};
    question.kind = Question::Kind::devices;
    const Message message = pack(question);
    constexpr int questions = 5000;
    int asked = 0;
    helper::run_until(loop, [&] {
        while (asked<questions&& ::send(process.get(), message.data(), message.size(),
                                        MSG_DONTWAIT | MSG_NOSIGNAL)> 0) {
            ++asked;
        }
        return asked == questions;
    });
}

// Ask for two reloads, one before the other is done, and for a third one then. Expect the second
// one to be refused.
TEST_F(ServiceTest, OneReloadAtATime) {
    mediator.delays = true;
    const auto asks = [&](std::uint32_t id) {
        Question question{};
        question.id = id;
        question.kind = Question::Kind::reload;
        const Message message = pack(question);
        return ::send(process.get(), message.data(), message.size(), 0) > 0;
    };
    const auto hear = [&] {
        Answer answer{};
        helper::run_until(loop, [&] {
            return ::recv(process.get(), &answer, sizeof(answer), MSG_DONTWAIT | MSG_PEEK) > 0;
        });
        EXPECT_GT(::recv(process.get(), &answer, sizeof(answer), 0), 0);
        return answer;
    };
    ASSERT_TRUE(asks(1) && asks(2));
    const Answer refused = hear();
    EXPECT_EQ(refused.id, 2u);
    EXPECT_EQ(refused.error, std::uint32_t{EBUSY});
    mediator.delayed(mediator.reloaded);
    EXPECT_EQ(hear().id, 1u);
    mediator.delays = false;
    ASSERT_TRUE(asks(3));
    const Answer last = hear();
    EXPECT_EQ(last.id, 3u);
    EXPECT_EQ(last.error, 0u);
}

TEST(Asking, AllPagesArriveInOrder) {
    constexpr std::size_t count = 1000;
    FakeMediator mediator{count};
    auto ends = helper::open_socket_pair();
    ASSERT_TRUE(ends);
    const ControlThread thread{std::move(ends->ours), {ends->its.get()}, Task{}, mediator};
    Asker asker{ends->its.get()};
    const auto devices = asker.all<Device>(Question::Kind::devices);
    ASSERT_TRUE(devices);
    ASSERT_EQ(devices->size(), count);
    for (std::size_t i = 0; i < count; ++i) {
        EXPECT_EQ(helper::read((*devices)[i].name), fmt::format("disk-{:04}/0", i));
    }
}

TEST(Asking, AVrdmadThatDoesNotAnswerIsGivenUp) {
    auto ends = helper::open_socket_pair();
    ASSERT_TRUE(ends);
    Asker asker{ends->its.get(), std::chrono::milliseconds{20}};
    const auto late = asker.lines(Question::Kind::log_level);
    ASSERT_FALSE(late);
    EXPECT_EQ(late.error().error, std::errc::timed_out);
    ends->ours = {};
    EXPECT_FALSE(asker.lines(Question::Kind::log_level));
    EXPECT_TRUE(asker.ended());
}

} // namespace
} // namespace vrdma::management
