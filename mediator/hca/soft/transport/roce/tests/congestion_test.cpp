// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The rate of a sender that gets notices of congestion at given times.
#include "mediator/hca/soft/transport/roce/congestion.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace vrdma::hca::soft::roce {
namespace {

using namespace std::chrono_literals;

constexpr Clock::time_point origin{100s};
constexpr auto line = ReactionPoint::usual_line_rate;

std::uint64_t rate_at(ReactionPoint& point, Clock::time_point now) {
    static_cast<void>(point.due(now));
    return point.rate();
}

// Gives notices without a pause. Returns the time of their end.
Clock::time_point slow_down(ReactionPoint& point) {
    auto now = origin;
    for (int i = 0; i < 100; ++i, now += 50us) {
        point.heed(now);
    }
    return now;
}

// No notice has arrived; expect the line's rate, and a packet to be due at once.
TEST(ReactionPoint, IsNotSlowedAtFirst) {
    ReactionPoint point;
    EXPECT_FALSE(point.slowed());
    EXPECT_EQ(point.rate(), line);
    point.sent(4096, origin);
    EXPECT_LE(point.due(origin), origin);
}

// One notice; expect half the rate. In each period, half of the missing rate comes back, and after
// eight periods there is no pacing at all.
TEST(ReactionPoint, RecoversFast) {
    ReactionPoint point;
    point.heed(origin);
    EXPECT_EQ(point.rate(), line / 2);
    EXPECT_EQ(rate_at(point, origin + 54us), line / 2);
    EXPECT_EQ(rate_at(point, origin + 55us), line / 4 * 3);
    EXPECT_EQ(rate_at(point, origin + 110us), line / 8 * 7);
    EXPECT_TRUE(point.slowed());
    EXPECT_EQ(rate_at(point, origin + 8 * 55us), line);
    EXPECT_FALSE(point.slowed());
}

// Many notices at once; expect one cut. The next after 50 us; expect another.
TEST(ReactionPoint, OneCutAnInterval) {
    ReactionPoint point;
    for (int i = 0; i < 1000; ++i) {
        point.heed(origin + i * 1ns);
    }
    EXPECT_EQ(point.rate(), line / 2);
    point.heed(origin + 50us);
    EXPECT_EQ(point.rate(), line / 4);
}

// Endless notices; expect the rate to fall to the minimum, and not below.
TEST(ReactionPoint, KeepsALeastRate) {
    ReactionPoint point;
    slow_down(point);
    EXPECT_EQ(point.rate(), ReactionPoint::min_rate);
}

// From the minimum rate, without sending; expect it to rise by 40 Mb/s per period after fast
// recovery, and to reach the line's rate in the end.
TEST(ReactionPoint, RisesByTime) {
    ReactionPoint point;
    const auto now = slow_down(point);
    const std::uint64_t before = rate_at(point, now + 20 * 55us);
    const std::uint64_t after = rate_at(point, now + 21 * 55us);
    EXPECT_NEAR(static_cast<double>(after - before), 5e6, 1e3);
    EXPECT_TRUE(point.slowed());
    EXPECT_EQ(rate_at(point, now + 300ms), line);
    EXPECT_FALSE(point.slowed());
}

// The same while it sends as fast as it may; expect the byte counter to make the rise at least
// twice as fast.
TEST(ReactionPoint, RisesFasterByBytesAndTime) {
    const auto recovery = [](std::uint32_t bytes) {
        ReactionPoint point;
        auto now = slow_down(point);
        const auto begin = now;
        while (point.slowed()) {
            point.sent(bytes, now);
            now = std::max(now + 5us, point.due(now));
            static_cast<void>(point.due(now));
        }
        return now - begin;
    };
    EXPECT_LT(2 * recovery(65536), recovery(0));
}

// Notices at ports of other speeds; expect half of the line's rate, and all of it in the end. This
// takes no longer than at a port of 100 Gb/s.
TEST(ReactionPoint, KnowsTheLine) {
    for (const std::uint64_t mbps : {1, 10, 100, 1000, 10'000, 25'000, 200'000, 800'000}) {
        const std::uint64_t rate = mbps * 125'000;
        ReactionPoint point;
        point.heed(origin, rate);
        EXPECT_EQ(point.rate(), std::max(rate / 2, std::min(rate, ReactionPoint::min_rate)));
        auto now = origin;
        for (int i = 0; i < 100; ++i, now += 50us) {
            point.heed(now, rate);
        }
        EXPECT_EQ(point.rate(), std::min(rate, ReactionPoint::min_rate)) << mbps;
        EXPECT_EQ(rate_at(point, now + 200ms), rate) << mbps;
        EXPECT_FALSE(point.slowed()) << mbps;
    }
}

// A slowed sender's line becomes slower; expect the sender to use the new rate from the next notice
// on.
TEST(ReactionPoint, NoticesASlowerLine) {
    ReactionPoint point;
    point.heed(origin);
    point.heed(origin + 50us, line / 100);
    EXPECT_LT(point.rate(), line / 100);
    EXPECT_EQ(rate_at(point, origin + 200ms), line / 100);
}

// Send at a known rate; expect each packet to be due when the one before it has left. After a
// pause, the sender catches up on at most 100 us.
TEST(ReactionPoint, Paces) {
    ReactionPoint point;
    point.heed(origin);
    EXPECT_EQ(point.due(origin), origin);
    point.sent(62'500, origin); // 10 us at half of the line
    EXPECT_EQ(point.due(origin), origin + 10us);
    point.sent(62'500, origin + 10us);
    EXPECT_EQ(point.due(origin + 10us), origin + 20us);
    ReactionPoint late;
    const auto now = slow_down(late) + 10ms;
    late.sent(static_cast<std::uint32_t>(rate_at(late, now) * 150 / 1'000'000), now);
    EXPECT_GT(late.due(now), now + 49us);
    EXPECT_LE(late.due(now), now + 50us);
}

} // namespace
} // namespace vrdma::hca::soft::roce
