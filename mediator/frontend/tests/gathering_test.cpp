// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/frontend/gathering.h"

#include <gtest/gtest.h>

namespace vrdma {
namespace {

using std::chrono::milliseconds;

class GatheringTest : public ::testing::Test {
  protected:
    void run_for(milliseconds time) {
        const auto end = loop_.after(time, [&] { loop_.stop(); });
        ASSERT_TRUE(loop_.run());
    }

    EventLoop loop_;
    Gathering gathering_{loop_, {milliseconds{1}, milliseconds{20}}};
    int happened_ = 0;
};

// Await nobody; expect the gathering to end after its shortest time, and not before.
TEST_F(GatheringTest, EndsWhenNobodyIsAwaited) {
    const auto held = gathering_.hold([&] { ++happened_; });
    run_for(milliseconds{2});
    EXPECT_FALSE(gathering_.over());
    gathering_.begin();
    run_for(milliseconds{2});
    EXPECT_TRUE(gathering_.over());
    EXPECT_EQ(happened_, 1);
}

// Await two; expect what is held to happen in the turn after the second is there, in its order.
TEST_F(GatheringTest, WaitsForAll) {
    auto one = gathering_.await();
    auto two = gathering_.await();
    gathering_.begin();
    const auto first = gathering_.hold([&] { happened_ = 10; });
    const auto second = gathering_.hold([&] { ++happened_; });
    run_for(milliseconds{2});
    one = {};
    EXPECT_EQ(happened_, 0);
    two = {};
    EXPECT_EQ(happened_, 0);
    run_for(milliseconds{2});
    EXPECT_EQ(happened_, 11);
    EXPECT_TRUE(gathering_.over());
}

// Await somebody who never comes; expect the end after the longest time, and nothing to happen
// twice.
TEST_F(GatheringTest, DoesNotWaitForEver) {
    auto never = gathering_.await();
    const auto held = gathering_.hold([&] { ++happened_; });
    gathering_.begin();
    run_for(milliseconds{25});
    EXPECT_EQ(happened_, 1);
    never = {};
    EXPECT_EQ(happened_, 1);
}

// Drop one action and let another happen early; expect neither at the end.
TEST_F(GatheringTest, ActionsCanEndBefore) {
    auto dropped = gathering_.hold([&] { happened_ += 100; });
    auto early = gathering_.hold([&] { ++happened_; });
    dropped = {};
    early.happen();
    early.happen();
    EXPECT_EQ(happened_, 1);
    gathering_.end();
    EXPECT_EQ(happened_, 1);
    const auto late = gathering_.hold([&] { ++happened_; });
    EXPECT_EQ(happened_, 1);
    run_for(milliseconds{2});
    EXPECT_EQ(happened_, 2);
    const auto nobody = gathering_.await();
}

// End it twice; expect the last action once, after what was held.
TEST_F(GatheringTest, HasALastAction) {
    Gathering gathering{loop_, [&] { happened_ = 2 * happened_ + 10; }};
    const auto held = gathering.hold([&] { ++happened_; });
    gathering.end();
    EXPECT_EQ(happened_, 12);
    gathering.end();
    EXPECT_EQ(happened_, 12);
}

} // namespace
} // namespace vrdma
