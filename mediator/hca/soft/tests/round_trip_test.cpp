// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// When a peer's answer is overdue (RFC 6298).
#include "mediator/hca/soft/roce/round_trip.h"

#include <gtest/gtest.h>

namespace vrdma::test {
namespace {

using hca::soft::Clock;
using hca::soft::roce::RoundTrip;
using namespace std::chrono_literals;

class RoundTripTest : public ::testing::Test {
  protected:
    void answer_after(Clock::duration time) {
        trip_.sent(psn_, now_);
        now_ += time;
        trip_.arrived_before(++psn_, now_);
    }

    RoundTrip trip_;
    hca::soft::roce::Psn psn_ = 7;
    Clock::time_point now_{1h};
};

// No answer yet; expect nobody to know.
TEST_F(RoundTripTest, IsNotKnownBeforeAnAnswer) {
    trip_.sent(7, now_);
    EXPECT_EQ(trip_.patience(1ms), std::nullopt);
    trip_.arrived_before(7, now_ + 5ms); // what was before it
    EXPECT_EQ(trip_.patience(1ms), std::nullopt);
}

// One answer after 10 ms; expect three times as long. Then ever the same; expect little more than
// it.
TEST_F(RoundTripTest, FollowsTheAnswers) {
    answer_after(10ms);
    EXPECT_EQ(trip_.patience(1ms), 30ms);
    for (int i = 0; i < 50; ++i) {
        answer_after(10ms);
    }
    EXPECT_GE(trip_.patience(1ms), 10ms);
    EXPECT_LT(trip_.patience(1ms), 11ms);
}

// Answers at once; expect patience nevertheless.
TEST_F(RoundTripTest, HasALeast) {
    answer_after(0ns);
    EXPECT_EQ(trip_.patience(1ms), 1ms);
    EXPECT_EQ(trip_.patience(1h), 1h);
}

// In vain time and again; expect twice as much each time, within a bound, also after an answer that
// nobody could time, and what the next tells after that.
TEST_F(RoundTripTest, DoublesInVain) {
    answer_after(10ms);
    trip_.lost_patience();
    EXPECT_EQ(trip_.patience(1ms), 60ms);
    trip_.lost_patience();
    EXPECT_EQ(trip_.patience(1ms), 120ms);
    for (int i = 0; i < 100; ++i) {
        trip_.lost_patience();
    }
    EXPECT_LT(trip_.patience(1ms), 1min);
    const auto most = trip_.patience(1ms);
    trip_.arrived_before(psn_, now_);
    EXPECT_EQ(trip_.patience(1ms), most);
    answer_after(10ms);
    EXPECT_LT(trip_.patience(1ms), 30ms);
}

// Sent again before the answer; expect that not to be measured.
TEST_F(RoundTripTest, DoesNotTimeWhatWasSentAgain) {
    answer_after(10ms);
    trip_.sent(psn_, now_);
    trip_.sent_again();
    trip_.arrived_before(psn_ + 1, now_ + 1h);
    EXPECT_EQ(trip_.patience(1ms), 30ms);
}

} // namespace
} // namespace vrdma::test
