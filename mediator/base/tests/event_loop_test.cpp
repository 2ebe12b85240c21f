// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/base/event_loop.h"

#include <gtest/gtest.h>

#include <optional>
#include <thread>

#include "mediator/base/event_fd.h"

namespace vrdma {
namespace {

class EventLoopTest : public testing::Test {
  protected:
    EventLoop loop;
    EventFd first = EventFd::create().value();
    EventFd second = EventFd::create().value();
};

TEST_F(EventLoopTest, CallsWhoIsReady) {
    int calls = 0;
    const auto quiet = loop.watch(second.fd(), [](std::uint32_t) { FAIL(); });
    const auto watch = loop.watch(first.fd(), [&](std::uint32_t) {
        first.drain();
        if (++calls == 1) {
            first.signal();
        } else {
            loop.stop();
        }
    });
    first.signal();
    ASSERT_TRUE(loop.run());
    EXPECT_EQ(calls, 2);
}

// Set two timers, the later one first, and one that ends before; expect the two in their order.
TEST_F(EventLoopTest, TimersHaveTheirOrder) {
    std::string order;
    // The later timer is so much later that a delay between the two calls changes nothing.
    const auto later = loop.after(std::chrono::milliseconds{200}, [&] {
        order += 'b';
        loop.stop();
    });
    const auto sooner = loop.after(std::chrono::milliseconds{1}, [&] { order += 'a'; });
    {
        const auto ended = loop.after(std::chrono::milliseconds{0}, [&] { order += 'x'; });
    }
    ASSERT_TRUE(loop.run());
    EXPECT_EQ(order, "ab");
}

// The handler of a ready descriptor ends a timer that is due; expect that the timer does nothing.
TEST_F(EventLoopTest, WhatHasComeEndsATimer) {
    EventLoop::Timer timer = loop.after(std::chrono::milliseconds{0}, [] { FAIL(); });
    const auto watch = loop.watch(first.fd(), [&](std::uint32_t) {
        timer = {};
        first.drain();
    });
    const auto end = loop.after(std::chrono::milliseconds{1}, [&] { loop.stop(); });
    first.signal();
    ASSERT_TRUE(loop.run());
}

// Each timer sets the next one; expect the loop to look at descriptors in between.
TEST_F(EventLoopTest, TimersDoNotKeepOthersOut) {
    EventLoop::Timer timer;
    std::function<void()> again = [&] {
        timer = loop.after(std::chrono::milliseconds{0}, [&] { again(); });
    };
    const auto watch = loop.watch(first.fd(), [&](std::uint32_t) { loop.stop(); });
    again();
    first.signal();
    ASSERT_TRUE(loop.run());
}

// Both are ready in one round: whichever handler runs first ends the other's watch.
TEST_F(EventLoopTest, AWatchThatEndedIsNotCalled) {
    std::optional<EventLoop::Watch> watches[2];
    int calls = 0;
    const auto end_other = [&](int other) {
        return [&, other](std::uint32_t) {
            ++calls;
            watches[other].reset();
            loop.stop();
        };
    };
    watches[0] = loop.watch(first.fd(), end_other(1)).value();
    watches[1] = loop.watch(second.fd(), end_other(0)).value();
    first.signal();
    second.signal();
    ASSERT_TRUE(loop.run());
    EXPECT_EQ(calls, 1);
}

TEST_F(EventLoopTest, AHandlerMayEndItsOwnWatch) {
    std::optional<EventLoop::Watch> watch;
    const std::string captured = "a string that lives in the handler";
    std::string seen;
    watch = loop.watch(first.fd(),
                       [&, captured](std::uint32_t) {
                           watch.reset();
                           seen = captured;
                           loop.stop();
                       })
                .value();
    first.signal();
    ASSERT_TRUE(loop.run());
    EXPECT_EQ(seen, captured);
}

TEST_F(EventLoopTest, OneThatIsAlwaysReadyDoesNotStarveOthers) {
    int busy = 0;
    const auto noisy = loop.watch(first.fd(), [&](std::uint32_t) {
        ASSERT_LT(++busy, 1000);
        second.signal();
    });
    const auto watch = loop.watch(second.fd(), [&](std::uint32_t) { loop.stop(); });
    first.signal();
    EXPECT_TRUE(loop.run());
}

// Let another thread take the place of the loop's thread; expect it to watch and to run.
TEST_F(EventLoopTest, AnotherThreadTakesItOver) {
    std::thread{[&] {
        loop.adopt();
        const auto watch = loop.watch(first.fd(), [&](std::uint32_t) { loop.stop(); });
        first.signal();
        EXPECT_TRUE(loop.run());
    }}.join();
    loop.adopt();
}

TEST_F(EventLoopTest, WhatCannotBeWatchedIsAnError) {
    EXPECT_EQ(loop.watch(-1, [](std::uint32_t) {}).error(), std::errc::bad_file_descriptor);
}

} // namespace
} // namespace vrdma
