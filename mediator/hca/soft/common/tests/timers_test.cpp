// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/common/timers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>

namespace vrdma::hca::soft {
namespace {

struct Item {
    Timer timer;
    int deadline = 0;
};

Clock::time_point at(int milliseconds) {
    return Clock::time_point{std::chrono::milliseconds{milliseconds}};
}

// Set timers in random order, cancel every third; expect the others in order of their deadlines,
// and none before its deadline.
TEST(Timers, ComeInOrder) {
    constexpr int count = 1000;
    std::mt19937 random{1}; // NOLINT(cert-msc32-c,cert-msc51-cpp): failures must come again
    std::deque<Item> items(count);
    Timers<Item> timers;
    timers.reserve(count);
    for (Item& item : items) {
        item.deadline = static_cast<int>(random() % 500);
        timers.set(item, at(item.deadline));
    }
    std::vector<int> expected;
    for (int i = 0; i < count; ++i) {
        if (i % 3 == 0) {
            timers.cancel(items[i]);
        } else {
            expected.push_back(items[i].deadline);
        }
    }
    std::sort(expected.begin(), expected.end());
    std::vector<int> fired;
    for (int now = 0; now <= 500; ++now) {
        while (const Item* item = timers.pop_due(at(now))) {
            EXPECT_LE(item->deadline, now);
            fired.push_back(item->deadline);
        }
    }
    EXPECT_EQ(fired, expected);
    EXPECT_TRUE(timers.empty());
}

// Cancel a timer that is not set, and set a timer again after it has fired; expect one firing each.
TEST(Timers, CanBeSetAgain) {
    Item item;
    Timers<Item> timers;
    timers.reserve(1);
    timers.cancel(item);
    for (int i = 1; i < 3; ++i) {
        timers.set(item, at(i));
        EXPECT_EQ(timers.next(), at(i));
        EXPECT_EQ(timers.pop_due(at(0)), nullptr);
        EXPECT_EQ(timers.pop_due(at(i)), &item);
        EXPECT_EQ(timers.pop_due(at(i)), nullptr);
    }
}

} // namespace
} // namespace vrdma::hca::soft
